"""Stand-ins for the archives that Bazel 4.2.3 downloads before it builds or tests any C++."""

def offline_shims():
    # Debian's bazel-bootstrap 4.2.3 calls itself "no_version" or ""; a release says "7.7.1".
    version = native.bazel_version
    major = version.split(".")[0] if version else ""
    if major.isdigit() and int(major) >= 8:
        return  # 8 and later bring their own
    names = ["rules_shell"]  # sh_test is still built in up to 7
    if not major.isdigit() or int(major) <= 4:
        names += ["rules_cc", "rules_java", "remote_coverage_tools"]
    for name in names:
        if not native.existing_rule(name):
            native.local_repository(name = name, path = "tools/third_party/bazel/" + name)
