// What Ops::reserve() makes on the GPU: buffers for what the host sends with a step, for
// attention's partial results, and for facts of rows of logits that go back.
#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstddef>

#include "kernels/cuda/attention.h"
#include "kernels/cuda/leaders.h"
#include "kernels/cuda/step_image.h"
#include "kernels/cuda/upload_ring.h"
#include "kernels/device_arena.h"
#include "kernels/ops.h"

namespace headrace {

inline constexpr std::size_t kLeaderRows = 64;  // that leaders are taken of at a time

/// Bytes of its parts.
struct StepBytes {
  StepBytes(const StepLimits& limits, const AttentionShape& shape, int max_rows)
      : image(most_image_bytes(limits, shape, max_rows)),
        ids(static_cast<std::size_t>(max_rows) * sizeof(std::int32_t)),
        partials(static_cast<std::size_t>(limits.partials * partial_floats(shape)) * sizeof(float)),
        statistics(static_cast<std::size_t>(max_rows) * sizeof(RowStatistics)),
        best(static_cast<std::size_t>(max_rows) * sizeof(BestLogit)),
        leaders(std::min(kLeaderRows, static_cast<std::size_t>(max_rows)) * sizeof(LeadersRecord)) {
  }

  std::size_t taken() const {
    return UploadRing::taken_bytes(image) + UploadRing::taken_bytes(ids) + arena_bytes(partials) +
           arena_bytes(statistics) + arena_bytes(best) + arena_bytes(leaders);
  }

  std::size_t image;
  std::size_t ids;
  std::size_t partials;
  std::size_t statistics;
  std::size_t best;
  std::size_t leaders;
};

struct StepBuffers {
  StepBuffers(cudaStream_t stream, DeviceArena& arena, const StepBytes& bytes)
      : images(stream, arena, bytes.image),
        ids(stream, arena, bytes.ids),
        partials(reinterpret_cast<float*>(arena.take(bytes.partials))),
        statistics(reinterpret_cast<RowStatistics*>(arena.take(bytes.statistics))),
        best(reinterpret_cast<BestLogit*>(arena.take(bytes.best))),
        max_statistics(bytes.statistics / sizeof(RowStatistics)),
        leaders(reinterpret_cast<LeadersRecord*>(arena.take(bytes.leaders))),
        max_leaders(bytes.leaders / sizeof(LeadersRecord)) {}

  StepImageBuilder builder;
  UploadRing images;
  UploadRing ids;
  float* partials;
  RowStatistics* statistics;
  BestLogit* best;
  std::size_t max_statistics;  // and best logits
  LeadersRecord* leaders;
  std::size_t max_leaders;
};

}  // namespace headrace
