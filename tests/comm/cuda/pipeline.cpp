#include "tests/comm/cuda/pipeline.h"

#include <cuda_runtime_api.h>
#include <unistd.h>

#include <cstring>
#include <string>
#include <vector>

#include "comm/cuda/queued_work.h"
#include "comm/mpi_channel.h"
#include "comm/waiting.h"
#include "kernels/cuda/check.h"
#include "kernels/cuda/elementwise.h"
#include "kernels/cuda/handles.h"

namespace headrace::testing_transport {
namespace {

// Messages of more than a page, so that MPI does not send them before they are received.
constexpr std::int64_t kMostValues = 4096;
constexpr std::size_t kMostBytes = kMostValues * sizeof(float);

std::int64_t num_values(int step) {
  return kMostValues - 512 * (step % 3);
}

float input(int step, std::int64_t i) {
  return static_cast<float>(step + i % 7);
}

// What a stage of `size` ranks makes of a value: it adds the parts of all ranks, of which the first
// gives two, and then adds what all have.
float staged(float value, int size) {
  float sum = value;
  for (int rank = 0; rank < size; ++rank) {
    sum += static_cast<float>(rank == 0 ? 2 * (rank + 1) : rank + 1);
  }
  return size == 1 ? sum : sum * static_cast<float>(size);
}

// Device memory full of one value.
class Constant {
 public:
  Constant(float value, cudaStream_t stream) : memory_(kMostBytes) {
    const std::vector<float> values(kMostValues, value);
    HR_CUDA(
        cudaMemcpyAsync(memory_.data(), values.data(), kMostBytes, cudaMemcpyHostToDevice, stream));
  }
  const float* get() const { return reinterpret_cast<const float*>(memory_.data()); }

 private:
  DeviceMemory memory_;
};

class Rank {
 public:
  Rank(const Communicator& communicator, const PipelineJob& job)
      : communicator_(communicator),
        job_(job),
        rank_(communicator.rank()),
        num_stages_(communicator.size() / job.group_size),
        stage_(rank_ / job.group_size),
        transport_(make_device_transport(communicator, options())),
        own_constant_(static_cast<float>(rank_ % job.group_size + 1), compute_.get()),
        zero_(0.0F, compute_.get()),
        input_(kMostBytes),
        hidden_(kMostBytes),
        pinned_input_(kMostBytes * static_cast<std::size_t>(job.num_steps)),
        result_(kMostBytes * static_cast<std::size_t>(job.num_steps)) {
    const ChannelShape plans{.max_bytes = sizeof(std::int64_t), .num_buffers = 4};
    if (!is_first()) plan_in_ = make_mpi_receiver(communicator, upstream(), plans);
    if (!is_last()) plan_out_ = make_mpi_sender(communicator, downstream(), plans);
  }

  int run() {
    for (int step = 0; step < job_.num_steps; ++step) {
      if (rank_ == job_.silent_rank && step == job_.num_steps / 2) {
        for (;;) pause();
      }
      run_step(step);
    }
    QueuedWork queued;
    queued.mark(compute_.get());
    wait_for("the device", [&] { return queued.ended("on its layers"); });
    if (plan_out_) {
      wait_for("its plans to leave", [&] { return plan_out_->drained(); });
      wait_for("its messages to leave", [&] { return transport_->sender()->drained(); });
    }
    const int wrong = is_last() ? count_wrong() : 0;
    communicator_.barrier();
    return wrong;
  }

 private:
  bool is_first() const { return stage_ == 0; }
  bool is_last() const { return stage_ + 1 == num_stages_; }
  int upstream() const { return rank_ - job_.group_size; }
  int downstream() const { return rank_ + job_.group_size; }

  TransportOptions options() {
    TransportOptions options{.kind = job_.kind,
                             .compute = compute_.get(),
                             .hidden = {.max_bytes = kMostBytes, .num_buffers = 2},
                             .exchange_bytes = 2 * kMostBytes,
                             .stall_timeout_s = job_.stall_timeout_s};
    if (!is_first()) options.upstream = upstream();
    if (!is_last()) options.downstream = downstream();
    for (int r = 0; r < job_.group_size; ++r) {
      options.group.push_back(stage_ * job_.group_size + r);
    }
    for (int rank = 0; rank < communicator_.size(); ++rank) {
      options.names.push_back("rank " + std::to_string(rank));
    }
    return options;
  }

  template <class Ready>
  void wait_for(const std::string& what, const Ready& ready) {
    Waiting waiting(what, job_.stall_timeout_s);
    while (!ready()) {
      transport_->poll();
      waiting.pause();
    }
  }

  void add(float* out, const float* base, std::vector<const float*> parts, std::int64_t count) {
    std::vector<std::int32_t> merges(parts.size(), 1);
    merges.front() = 0;
    launch_add_partials({.out = out,
                         .base = base,
                         .parts = parts,
                         .merges = merges,
                         .bias = nullptr,
                         .rows = 1,
                         .cols = count},
                        compute_.get());
  }

  // The values that the step begins with.
  const float* take(int step, std::int64_t count) {
    if (!is_first()) {
      wait_for("a plan from rank " + std::to_string(upstream()),
               [&] { return plan_in_->try_receive().has_value(); });
      plan_in_->release();
      std::byte* message = nullptr;
      wait_for("a message from rank " + std::to_string(upstream()), [&] {
        message =
            transport_->receiver()->try_receive(static_cast<std::size_t>(count) * sizeof(float));
        return message != nullptr;
      });
      return reinterpret_cast<const float*>(message);
    }
    auto* values = reinterpret_cast<float*>(pinned_input_.data()) + step * kMostValues;
    for (std::int64_t i = 0; i < count; ++i) values[i] = input(step, i);
    HR_CUDA(cudaMemcpyAsync(input_.data(), values, static_cast<std::size_t>(count) * sizeof(float),
                            cudaMemcpyHostToDevice, compute_.get()));
    return reinterpret_cast<const float*>(input_.data());
  }

  void run_step(int step) {
    const std::int64_t count = num_values(step);
    const float* values = take(step, count);
    float* out = reinterpret_cast<float*>(hidden_.data());
    if (!is_last()) {
      wait_for("a buffer to rank " + std::to_string(downstream()), [&] {
        out = reinterpret_cast<float*>(transport_->sender()->try_acquire());
        return out != nullptr;
      });
    }
    compute(out, values, count);
    if (!is_first()) transport_->receiver()->release();
    if (!is_last()) {
      pass_on(step, count);
    } else {
      HR_CUDA(cudaMemcpyAsync(result_.data() + static_cast<std::size_t>(step) * kMostBytes, out,
                              static_cast<std::size_t>(count) * sizeof(float),
                              cudaMemcpyDeviceToHost, compute_.get()));
    }
  }

  void compute(float* out, const float* values, std::int64_t count) {
    DeviceExchange* exchange = transport_->exchange();
    if (exchange == nullptr) {
      add(out, values, {own_constant_.get(), own_constant_.get()}, count);
      return;
    }
    auto* own = reinterpret_cast<float*>(exchange->own());
    const bool two = exchange->rank() == 0;
    add(own, nullptr, {own_constant_.get(), zero_.get()}, count);
    if (two) add(own + count, nullptr, {own_constant_.get(), zero_.get()}, count);
    std::vector<std::size_t> bytes(static_cast<std::size_t>(exchange->size()),
                                   static_cast<std::size_t>(count) * sizeof(float));
    bytes.front() *= 2;
    exchange->gather(bytes);
    std::vector<const float*> parts;
    for (int rank = 0; rank < exchange->size(); ++rank) {
      parts.push_back(reinterpret_cast<const float*>(exchange->part(rank)));
      if (rank == 0) parts.push_back(parts.back() + count);
    }
    add(out, values, parts, count);
    // Equal parts, whose sum nobody needs but whose bytes all compare: the other way of a gather.
    add(reinterpret_cast<float*>(exchange->own()), nullptr, {zero_.get(), zero_.get()}, count);
    bytes.front() /= 2;
    exchange->gather(bytes);
    add(out, out, {reinterpret_cast<const float*>(exchange->part(exchange->size() - 1))}, count);
    exchange->sum(out, count);
  }

  void pass_on(int step, std::int64_t count) {
    if (rank_ != job_.mute_rank || step < job_.num_steps / 2) {
      transport_->sender()->post(static_cast<std::size_t>(count) * sizeof(float));
    }
    wait_for("a buffer for a plan", [&] { return plan_out_->try_acquire().has_value(); });
    const std::int64_t number = step;
    std::memcpy(plan_out_->try_acquire()->data(), &number, sizeof(number));
    plan_out_->post(sizeof(number));
  }

  int count_wrong() const {
    int wrong = 0;
    for (int step = 0; step < job_.num_steps; ++step) {
      const auto* values = reinterpret_cast<const float*>(result_.data()) + step * kMostValues;
      for (std::int64_t i = 0; i < num_values(step); ++i) {
        float expected = input(step, i);
        for (int stage = 0; stage < num_stages_; ++stage) {
          expected = staged(expected, job_.group_size);
        }
        if (values[i] != expected) ++wrong;
      }
    }
    return wrong;
  }

  const Communicator& communicator_;
  PipelineJob job_;
  int rank_;
  int num_stages_;
  int stage_;
  OwnedStream compute_;
  std::unique_ptr<DeviceTransport> transport_;
  Constant own_constant_;
  Constant zero_;
  DeviceMemory input_;
  DeviceMemory hidden_;
  PinnedMemory pinned_input_;  // a part for each step
  PinnedMemory result_;        // likewise
  std::unique_ptr<MessageReceiver> plan_in_;
  std::unique_ptr<MessageSender> plan_out_;
};

}  // namespace

int run_pipeline(const Communicator& communicator, const PipelineJob& job) {
  int num_devices = 0;
  HR_CUDA(cudaGetDeviceCount(&num_devices));
  HR_CUDA(cudaSetDevice(communicator.rank() % num_devices));
  return Rank(communicator, job).run();
}

}  // namespace headrace::testing_transport
