"""The environment in which libfabric finds the simulated CXI provider, seen from where tests run."""

SIMULATED_CXI = {
    "FI_PROVIDER_PATH": "nicsim/fi",
    "IPATH_NO_BACKTRACE": "1",
    "LANYARD_FI_FLUSH_MS": "10",
}
