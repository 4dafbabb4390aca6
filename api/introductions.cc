#include "api/introductions.h"

#include <cstring>
#include <iterator>
#include <type_traits>
#include <utility>

namespace lanyard::api {

namespace {

// The letters' tag is MPI_TAG_UB less this number, which programs are unlikely to use.
constexpr int kBelowUpperBound = 0x4c59;

}  // namespace

// Each step is a bijection, so a change of any one word changes the sum.
uint64_t Introductions::Letter::sum() const {
  static_assert(sizeof(Letter) % sizeof(uint64_t) == 0 && std::has_unique_object_representations_v<Letter>);
  uint64_t words[sizeof(Letter) / sizeof(uint64_t)];
  std::memcpy(words, this, sizeof words);
  uint64_t hash = 0;
  for (size_t i = 0; i + 1 < std::size(words); ++i) {
    hash = (hash ^ words[i]) * 0x9e3779b97f4a7c15u;
    hash ^= hash >> 32;
  }
  return hash == 0 ? 1 : hash;
}

Introductions::Introductions(uint32_t rank, uint32_t ranks) : rank_(rank), written_(ranks) {
  int* upper_bound = nullptr;
  int found = 0;
  PMPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &upper_bound, &found);
  tag_ = (found != 0 ? *upper_bound : 32767) - kBelowUpperBound;
  written_[rank] = true;
}

Introductions::~Introductions() {
  for (const std::unique_ptr<Post>& post : expected_) {
    PMPI_Cancel(&post->request);
    PMPI_Wait(&post->request, MPI_STATUS_IGNORE);
  }
  for (std::unique_ptr<Post>& post : sent_) {
    int done = 0;
    if (PMPI_Test(&post->request, &done, MPI_STATUS_IGNORE) == MPI_SUCCESS && done != 0)
      continue;
    PMPI_Request_free(&post->request);
    (void)post.release();
  }
}

void Introductions::send(uint32_t peer, Letter::Kind kind, const core::Introduction& introduction) {
  auto post = std::make_unique<Post>();
  post->letter = {.kind = kind, .from = rank_, .introduction = introduction, .checksum = 0};
  post->letter.checksum = post->letter.sum();
  const int code = PMPI_Isend(&post->letter, sizeof post->letter, MPI_BYTE, static_cast<int>(peer), tag_,
                              MPI_COMM_WORLD, &post->request);
  if (code == MPI_SUCCESS)
    sent_.push_back(std::move(post));
}

void Introductions::introduce_to(uint32_t peer, const core::ControlPlane* plane) {
  if (written_[peer] || (plane != nullptr && plane->knows(peer)))
    return;
  written_[peer] = true;
  if (plane == nullptr)
    return send(peer, Letter::Kind::kNoCard, {});
  send(peer, Letter::Kind::kHello, plane->introduction());
  unanswered_.push_back(peer);
  expect();
}

void Introductions::expect_all() {
  for (size_t i = 0; i < written_.size(); ++i)
    expect();
}

void Introductions::expect() {
  if (expected_.size() + heard_ + 1 < written_.size())
    receive();
}

void Introductions::receive() {
  auto post = std::make_unique<Post>();
  const int code =
      PMPI_Irecv(&post->letter, sizeof post->letter, MPI_BYTE, MPI_ANY_SOURCE, tag_, MPI_COMM_WORLD, &post->request);
  if (code == MPI_SUCCESS)
    expected_.push_back(std::move(post));
}

bool Introductions::awaits(core::ControlPlane& plane) {
  std::erase_if(unanswered_, [&](uint32_t peer) { return plane.knows(peer) || plane.lost(peer); });
  return !unanswered_.empty() || (!expected_.empty() && !plane.matcher().posted().empty());
}

void Introductions::progress(core::ControlPlane& plane) {
  if (!sent_.empty() || awaits(plane))
    drain(plane);
}

void Introductions::drain(core::ControlPlane& plane) {
  // One test makes MPI progress for all letters.
  const auto is_done = [](const std::unique_ptr<Post>& post) {
    int done = 0;
    return PMPI_Test(&post->request, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS || done != 0;
  };
  std::erase_if(sent_, is_done);
  if (expected_.empty() && written_.size() > 1)
    receive();
  if (expected_.empty())
    return;
  const Post* first = expected_.front().get();
  const bool is_first_done = is_done(expected_.front());
  look(plane);
  size_t again = 0;
  std::erase_if(expected_, [&](const std::unique_ptr<Post>& post) {
    const bool is_over = post.get() == first ? is_first_done : post->read && is_done(post);
    // An unexpected or a second letter took the place of an expected one.
    const Letter& letter = post->letter;
    const bool is_extra =
        letter.kind == Letter::Kind::kEnds || letter.from >= written_.size() || !written_[letter.from];
    again += is_over && post->read && is_extra;
    return is_over;
  });
  while (again-- > 0)
    expect();
}

// MPI may still be writing the letter. It has arrived once its checksum is right.
void Introductions::look(core::ControlPlane& plane) {
  for (const std::unique_ptr<Post>& post : expected_) {
    if (post->read)
      continue;
    Letter letter;
    std::memcpy(&letter, &post->letter, sizeof letter);
    if (letter.checksum == 0 || letter.checksum != letter.sum())
      continue;
    post->read = true;
    read(letter, plane);
  }
}

void Introductions::read(const Letter& letter, core::ControlPlane& plane) {
  if (letter.from >= written_.size() || letter.from == rank_ || letter.kind > Letter::Kind::kEnds)
    return;
  const auto from = static_cast<uint32_t>(letter.from);
  heard_ += letter.kind != Letter::Kind::kEnds;
  switch (letter.kind) {
    case Letter::Kind::kHello: plane.meet(from, letter.introduction); return;
    case Letter::Kind::kNoCard: plane.give_up(from, "cannot use its NIC: its own matching call says why"); return;
    case Letter::Kind::kEnds: plane.part_from(from, nic::kHasEnded); return;
  }
}

void Introductions::take_leave(core::ControlPlane& plane) {
  for (uint32_t peer = 0; peer < written_.size(); ++peer) {
    const bool hears_by_nic = plane.knows(peer) && !plane.lost(peer);
    if (peer == rank_ || hears_by_nic || plane.has_left(peer) || (!written_[peer] && !plane.knows(peer)))
      continue;
    send(peer, Letter::Kind::kEnds, {});
    plane.part_from(peer, "has been told that this process ends");
  }
}

}  // namespace lanyard::api
