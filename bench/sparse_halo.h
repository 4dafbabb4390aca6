// SparseHalo: brings a rank the values of a distributed vector that its rows of a sparse matrix need of other ranks.
//
// One exchange is, in the order of the stream:
//
//   kMpi             start receives * | pack | synchronise the stream, start sends * | ... | wait for all *
//   kStream          start receives | pack | start sends | ... | wait for all
//   kStream, merged  pack | start all | ... | wait for all
//   kNccl            pack | one group of NCCL's sends and receives | ...
//
// What has a * the host does, and kernels the packing; kStream's starts and waits are enqueued by a queue of Lanyard's.
// Merged: the messages are an exchange of Lanyard's (MPIX_Request_set_info).
//
// "..." is what the program has to do meanwhile: here the rank multiplies the entries in its own columns. All requests
// are persistent, as the pattern never changes. Messages arrive where they are read: nothing unpacks.
//
// Why the ghosts may be written again when the next exchange's receives start. In kStream and kNccl their last reader
// is earlier in the same stream. In kMpi the host has synchronised the stream since: it adds up a dot product between
// any two multiplications. With two sets a message may come an exchange early, while the other set is being read.
#ifndef LANYARD_BENCH_SPARSE_HALO_H_
#define LANYARD_BENCH_SPARSE_HALO_H_

#include <array>
#include <cstdint>
#include <string>

#include "bench/aligned_buffer.h"
#include "bench/local_matrix.h"
#include "bench/nccl.h"
#include "bench/request_set.h"
#include "bench/stream.h"
#include "bench/stream_queue.h"

namespace lanyard::bench {

enum class CgMode { kMpi, kStream, kNccl };

// Of kStream: how many sets of messages an exchange of Lanyard's has; kSingle: each message is started by itself.
enum class Merging { kSingle, kOneSet, kTwoSets };

class SparseHalo {
 public:
  // Allocates, makes requests, matches them where they are a queue's. Collective over MPI_COMM_WORLD, whose ranks the
  // matrix's neighbours are. The stream, the queue (kStream) and `nccl` (kNccl) outlive this object.
  SparseHalo(CgMode mode, Merging merging, const LocalMatrix& matrix, Stream& stream, StreamQueue* queue, Nccl* nccl);
  // Requires that everything has run.
  ~SparseHalo() = default;
  SparseHalo(const SparseHalo&) = delete;
  SparseHalo& operator=(const SparseHalo&) = delete;

  // What is to be packed: values at `places` of the vector, one after the other, to out(). In the stream's memory.
  int64_t sent() const { return sent_; }
  const int32_t* places() { return reinterpret_cast<const int32_t*>(places_.data()); }
  double* out() { return reinterpret_cast<double*>(out_.data()); }
  // Where the exchange to come will put the ghosts, in their order.
  int set() const { return set_; }
  int sets() const { return merging_ == Merging::kTwoSets ? 2 : 1; }
  const double* ghosts(int set) { return reinterpret_cast<const double*>(in_[static_cast<size_t>(set)].data()); }
  bool is_empty() const { return neighbours_.empty(); }
  Nccl* nccl() { return nccl_; }

  // An exchange: start_receives(), the pack kernel, send(), what there is to do, wait(). Every rank makes as many.
  void start_receives();
  void send();
  void wait();

  // kStream: why the messages are not merged as asked for, on this rank; empty where they are.
  std::string why_not_merged() const;
  // kStream: why a graph cannot capture exchanges; empty where it can.
  std::string why_not_captured();

 private:
  void make_requests(int set);
  // Of the set to come.
  MPI_Request* receives() { return requests_.data() + set_ * 2 * neighbours(); }
  MPI_Request* sends() { return receives() + neighbours(); }
  int neighbours() const { return static_cast<int>(neighbours_.size()); }
  std::byte* message_out(size_t neighbour) { return out_.data() + offsets_[neighbour] * sizeof(double); }

  const CgMode mode_;
  const Merging merging_;
  const std::vector<LocalMatrix::Neighbour>& neighbours_;
  Stream& stream_;
  StreamQueue* const queue_;
  Nccl* const nccl_;
  int64_t sent_ = 0;
  std::vector<size_t> offsets_;  // of the neighbours' messages in out_, in values
  AlignedBuffer places_, out_;
  std::array<AlignedBuffer, 2> in_;
  RequestSet requests_;  // by set: receives, sends
  int set_ = 0;
};

}  // namespace lanyard::bench

#endif  // LANYARD_BENCH_SPARSE_HALO_H_
