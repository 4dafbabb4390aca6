"""Environment variables that let libfabric find the simulated CXI provider from a test's directory."""

SIMULATED_CXI = {
    "FI_PROVIDER_PATH": "nicsim/fi",
    "IPATH_NO_BACKTRACE": "1",
    "LANYARD_FI_FLUSH_MS": "10",
}
