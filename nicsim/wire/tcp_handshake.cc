#include "nicsim/wire/tcp_handshake.h"

#include <nettle/hmac.h>
#include <nettle/memops.h>
#include <sys/random.h>

#include <type_traits>

#include "transport/base/check.h"

namespace lanyard::nicsim {

namespace {

template <size_t bytes>
void fill_randomly(std::array<std::byte, bytes>& array) {
  const ssize_t count = ::getrandom(array.data(), bytes, 0);
  LANYARD_CHECK(count == static_cast<ssize_t>(bytes), "getrandom() gives random numbers");
}

}  // namespace

TcpSecret TcpSecret::random() {
  TcpSecret secret;
  fill_randomly(secret.bytes);
  return secret;
}

TcpChallenge new_challenge() {
  TcpChallenge challenge;
  fill_randomly(challenge);
  return challenge;
}

TcpProof prove(const TcpSecret& secret, TcpRole role, const TcpMeeting& meeting) {
  struct {
    char label[16] = {'L', 'a', 'n', 'y', 'a', 'r', 'd', ' ', 'T', 'C', 'P'};
    TcpRole role;
    TcpMeeting meeting;
  } text{.role = role, .meeting = meeting};
  static_assert(std::has_unique_object_representations_v<decltype(text)>, "the text has no padding");
  static_assert(sizeof(TcpProof) == SHA256_DIGEST_SIZE);
  hmac_sha256_ctx context;
  hmac_sha256_set_key(&context, secret.bytes.size(), reinterpret_cast<const uint8_t*>(secret.bytes.data()));
  hmac_sha256_update(&context, sizeof text, reinterpret_cast<const uint8_t*>(&text));
  TcpProof proof;
  hmac_sha256_digest(&context, proof.size(), reinterpret_cast<uint8_t*>(proof.data()));
  return proof;
}

bool is_same(const TcpProof& one, const TcpProof& other) {
  return memeql_sec(one.data(), other.data(), one.size()) != 0;
}

}  // namespace lanyard::nicsim
