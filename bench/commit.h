// The commit that this program was built from.
#ifndef LANYARD_BENCH_COMMIT_H_
#define LANYARD_BENCH_COMMIT_H_

namespace lanyard::bench {

// As commit.sh told Bazel, "0123456789ab" or "0123456789ab-changed"; "unknown" where it could not, or was not asked
// (--stamp).
const char* commit();

}  // namespace lanyard::bench

#endif  // LANYARD_BENCH_COMMIT_H_
