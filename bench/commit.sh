#!/bin/sh
# What Bazel asks before a build (--workspace_status_command): the commit that is built, as the benchmarks' reports name
# it. Says nothing outside a repository, and then they say "unknown".
commit=$(git rev-parse --short=12 HEAD 2>/dev/null) || exit 0
[ -z "$(git status --porcelain --untracked-files=no)" ] || commit=$commit-changed
echo "STABLE_LANYARD_COMMIT $commit"
