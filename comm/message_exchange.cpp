// Rounds by messages: everybody sends its buffer to everybody. For groups that cross nodes, where
// there is no memory to share.
#include <exception>
#include <stdexcept>
#include <utility>

#include "comm/check.h"
#include "comm/mpi_exchange.h"
#include "comm/waiting.h"
#include "kernels/buffer.h"

namespace headrace {
namespace {

constexpr int kTag = 0;  // messages of a pair keep their order, so rounds need no numbers

class MessageExchange final : public ShardExchange {
 public:
  MessageExchange(const Communicator& group, std::size_t capacity, ExchangeWait wait)
      : comm_(group.get()),
        rank_(group.rank()),
        wait_(std::move(wait)),
        sends_(static_cast<std::size_t>(group.size()), MPI_REQUEST_NULL),
        receives_(sends_),
        bytes_(sends_.size(), 0) {
    require_one_transfer("an exchange", capacity);
    for (int rank = 0; rank < group.size(); ++rank) buffers_.emplace_back(capacity);
  }

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(buffers_.size()); }

  std::span<std::byte> own() override { return {buffer(rank_).data(), buffer(rank_).bytes()}; }

  void publish(std::size_t bytes) override {
    if (bytes > buffer(rank_).bytes()) {
      throw std::logic_error("an exchange of " + std::to_string(bytes) + " bytes does not fit " +
                             std::to_string(buffer(rank_).bytes()));
    }
    bytes_[static_cast<std::size_t>(rank_)] = bytes;
    for (int peer = 0; peer < size(); ++peer) {
      if (peer == rank_) continue;
      const auto p = static_cast<std::size_t>(peer);
      HR_MPI(MPI_Irecv(buffer(peer).data(), static_cast<int>(buffer(peer).bytes()), MPI_BYTE, peer,
                       kTag, comm_, &receives_[p]));
      HR_MPI(MPI_Isend(buffer(rank_).data(), static_cast<int>(bytes), MPI_BYTE, peer, kTag, comm_,
                       &sends_[p]));
    }
  }

  void complete() override {
    for (int peer = 0; peer < size(); ++peer) {
      if (peer == rank_ || is_done(peer)) continue;
      Waiting waiting(wait_.names[static_cast<std::size_t>(peer)], wait_.stall_timeout_s);
      while (!is_done(peer)) {
        if (wait_.poll) wait_.poll();
        waiting.pause();
      }
    }
  }

  std::span<const std::byte> part(int rank) const override {
    const auto r = static_cast<std::size_t>(rank);
    return {buffers_[r].data(), bytes_[r]};
  }

 private:
  Buffer& buffer(int rank) { return buffers_[static_cast<std::size_t>(rank)]; }

  // Both directions, so that own() may be written again.
  bool is_done(int peer) {
    const auto p = static_cast<std::size_t>(peer);
    int received = 0;
    int sent = 0;
    MPI_Status status;
    if (receives_[p] != MPI_REQUEST_NULL) {
      HR_MPI(MPI_Test(&receives_[p], &received, &status));
      if (received != 0) {
        int bytes = 0;
        HR_MPI(MPI_Get_count(&status, MPI_BYTE, &bytes));
        bytes_[p] = static_cast<std::size_t>(bytes);
      }
    }
    HR_MPI(MPI_Test(&sends_[p], &sent, MPI_STATUS_IGNORE));
    return sent != 0 && receives_[p] == MPI_REQUEST_NULL;
  }

  MPI_Comm comm_;
  int rank_;
  ExchangeWait wait_;
  std::vector<MPI_Request> sends_;     // by peer
  std::vector<MPI_Request> receives_;  // by peer
  std::vector<std::size_t> bytes_;     // published, by rank
  std::vector<Buffer> buffers_;        // by rank
};

}  // namespace

std::unique_ptr<ShardExchange> make_message_exchange(const Communicator& group, std::size_t bytes,
                                                     ExchangeWait wait) {
  return std::make_unique<MessageExchange>(group, bytes, std::move(wait));
}

}  // namespace headrace
