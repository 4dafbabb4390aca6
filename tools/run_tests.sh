# Source this in the root of the tree. It runs tests with Bazel and counts their results:
#
#   run_tests LABEL CONFIG BAZEL_ARGUMENT...   CONFIG is one of .bazelrc, or '' for the default
#   run_step LABEL COMMAND...                  runs a command that counts as one test
#   finish                                     prints "N passed, N failed[, N skipped]"; fails if
#                                              a test failed or none passed
#
# A test skips itself by passing with the log line "SKIPPED: reason". A GoogleTest program counts as
# skipped if all its tests skipped. The summary lists skips with their reasons.
source tools/bazel.sh
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
total_passed=0 total_failed=0 total_skipped=0

# Prints "label status" for each test in Bazel's summary.
test_results() {
  awk '/^\/\/[^ ]+ +(\(cached\) )?(PASSED|FLAKY|FAILED|TIMEOUT|NO STATUS|INCOMPLETE|REMOTE FAILURE)/ {
    label = $1
    sub(/^[^ ]+ +(\(cached\) )?/, "")
    sub(/ in [0-9].*/, "")
    sub(/, failed in.*/, "")
    status[label] = $0
  }
  END { for (label in status) print label, status[label] }' "$1" | sort
}

# Prints the first five of Bazel's error lines, shortened: they say what did not build.
build_errors() {
  awk '/^ERROR: / && !/No test targets/ && n++ < 5 {print substr($0, 1, 160)}' "$1"
}

# skips_of TEST PREFIX: reads the test's log. Prints "all REASON" if the whole test skipped, or else
# "part CASE: REASON" for each GoogleTest case that skipped.
skips_of() {
  local folder=${1#//}
  folder=$2testlogs/${folder/:/\/}
  [[ -d $folder ]] || return 0
  find "$folder" -name test.log -exec cat {} + | awk '
    /^SKIPPED:/ { if (!whole) { sub(/^SKIPPED: */, ""); whole = 1; reason = $0 } }
    /: Skipped$/ { getline why }
    /^\[  SKIPPED \] .* \([0-9]+ ms\)/ { cases[++n] = $4 ": " why; why = "" }
    /^\[       OK \]/ { ran = 1 }
    END {
      if (whole) print "all", reason
      else if (n && !ran) print "all", cases[1]
      else for (i = 1; i <= n; ++i) print "part", cases[i]
    }'
}

run_tests() {
  local label=$1 config=$2 prefix=bazel- options=() status=0 start=$SECONDS
  local passed=0 failed=0 skipped=0 test result skip kind reason
  local log=$scratch/$label.log notes=$scratch/$label.notes
  shift 2
  : >"$notes"
  if [[ -n $config ]]; then
    options=("--config=$config")
    prefix=bazel-$config-
  fi
  echo "== $label: bazel test ${options[*]-} $*"
  "$bazel" test ${options[@]+"${options[@]}"} --keep_going "$@" 2>&1 | tee "$log" || status=${PIPESTATUS[0]}
  while read -r test result; do
    if [[ $result != PASSED && $result != FLAKY ]]; then
      failed=$((failed + 1))
      echo "FAILED  $test: $result" >>"$notes"
      continue
    fi
    skip=''
    while read -r kind reason; do
      skip=$kind
      echo "skipped $test: $reason" >>"$notes"
    done < <(skips_of "$test" "$prefix")
    if [[ $skip == all ]]; then
      skipped=$((skipped + 1))
    else
      passed=$((passed + 1))
    fi
  done < <(test_results "$log")
  # Bazel's status 3: tests failed; 4: no tests. Any other failure lies outside the tests.
  if [[ $status -ne 0 && $status -ne 3 && $status -ne 4 && $failed -eq 0 ]]; then
    failed=1
    echo "FAILED  the build (exit status $status of bazel)" >>"$notes"
  fi
  build_errors "$log" >>"$notes"
  echo "== $label: $passed passed, $failed failed, $skipped skipped; $((SECONDS - start)) s"
  sort "$notes"
  total_passed=$((total_passed + passed))
  total_failed=$((total_failed + failed))
  total_skipped=$((total_skipped + skipped))
}

run_step() {
  local label=$1 start=$SECONDS
  shift
  echo "== $label: $*"
  if "$@"; then
    echo "== $label: passed; $((SECONDS - start)) s"
    total_passed=$((total_passed + 1))
  else
    echo "FAILED  $label: $*; $((SECONDS - start)) s"
    total_failed=$((total_failed + 1))
  fi
}

finish() {
  local line="$total_passed passed, $total_failed failed"
  [[ $total_skipped -eq 0 ]] || line+=", $total_skipped skipped"
  echo "$line"
  [[ $total_failed -eq 0 && $total_passed -gt 0 ]]
}
