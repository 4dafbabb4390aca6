"""Test programs: many test files linked into one program.

  gtest_program  NAME: the gate's run; NAME_night and NAME_<run>: runs for the night, tag "night"
"""

load("@rules_cc//cc:defs.bzl", "cc_library", "cc_test")

def gtest_program(name, srcs, deps, night = [], runs = {}, main = True, env = {}, data = [], tags = [], **kw):
    """One GoogleTest program.

    Args:
      night: GoogleTest patterns of cases that are too slow for the gate. NAME leaves them out, NAME_night runs them.
      runs: more runs of the program at night: a suffix of NAME -> (GoogleTest filter, environment beside env).
      main: False if one of srcs has main().
      **kw: for every run, as size and shard_count.
    """
    cc_library(
        name = name + "_cases",
        testonly = True,
        srcs = srcs,
        deps = deps + ["@com_google_googletest//:gtest"],
        alwayslink = True,
    )
    links = [":%s_cases" % name] + (["@com_google_googletest//:gtest_main"] if main else [])
    every_run = {"": ("-" + ":".join(night) if night else "", {})}
    if night:
        every_run["_night"] = (":".join(night), {})
    for suffix, run in runs.items():
        every_run["_" + suffix] = run
    for suffix, (filter, more_env) in every_run.items():
        cc_test(
            name = name + suffix,
            args = ["'--gtest_filter=%s'" % filter] if filter else [],
            data = data,
            env = dict(env.items() + more_env.items()),
            tags = tags + (["night"] if suffix else []),
            deps = links,
            **kw
        )
