// Operators whose every element stands alone. They have the bits of the reference backend.
//
// Performance: bound by memory. The bytes are those of the operands, each read or written once; an
// element costs at most about 40 instructions (an erf activation), under a GPU's ratio of
// arithmetic to bandwidth. To meet: 85 % of the memory's rate (A100 80GB 2.0 TB/s, H100 3.35,
// H200 4.8) from 32 MB on; below that launch and cache set the time. Per element:
//   embed         bytes(T) read, 4 written            convert     4 read, bytes(T) written
//   activate      4 (gated 8) read, bytes(T) written  scale       4 read, 4 written
//   soft_cap      4 read, 4 written                   add_scaled  8 read, 4 written
//   add_partials  4 * (parts + 1) read, 4 written    copy_rows   4 read, 4 written
//   make_rows     bytes(T) written
#pragma once

#include <cstdint>
#include <span>

#include "kernels/cuda/stream.h"
#include "kernels/ops.h"

namespace headrace {

/// Most parts that add_partials takes: they travel as arguments of the kernel.
inline constexpr int kMaxPartials = 256;

struct EmbedLaunch {
  float* out = nullptr;  // [rows, k]
  const void* table = nullptr;
  const std::int32_t* ids = nullptr;  // [rows], on the device
  std::int64_t rows = 0;
  std::int64_t k = 0;
  DType table_dtype = DType::kFloat32;
};
void launch_embed(const EmbedLaunch& args, Stream stream);

struct ConvertLaunch {
  void* out = nullptr;
  const float* x = nullptr;
  std::int64_t count = 0;
  DType out_dtype = DType::kFloat32;
};
void launch_convert(const ConvertLaunch& args, Stream stream);

struct ActivateLaunch {
  void* out = nullptr;       // [rows, cols]
  const float* x = nullptr;  // [rows, cols], or [rows, 2 * cols] with gates
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  Activation activation = Activation::kSilu;
  bool gated = false;
  DType out_dtype = DType::kFloat32;
};
void launch_activate(const ActivateLaunch& args, Stream stream);

struct ScaleLaunch {
  float* inout = nullptr;
  std::int64_t count = 0;
  float factor = 0.0F;
};
void launch_scale(const ScaleLaunch& args, Stream stream);
/// factor is the cap.
void launch_soft_cap(const ScaleLaunch& args, Stream stream);

/// Rows of floats whose strides may differ; the two sides do not overlap.
struct CopyRowsLaunch {
  float* out = nullptr;
  const float* x = nullptr;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::int64_t out_stride = 0;
  std::int64_t x_stride = 0;
};
void launch_copy_rows(const CopyRowsLaunch& args, Stream stream);

/// Weights that are drawn where they lie.
struct MakeRowsLaunch {
  void* out = nullptr;  // [rows.rows, cols]
  RandomRows rows;
  std::int64_t cols = 0;
  DType out_dtype = DType::kFloat32;
};
void launch_make_rows(const MakeRowsLaunch& args, Stream stream);

struct AddScaledLaunch {
  float* inout = nullptr;
  const float* x = nullptr;
  std::int64_t count = 0;
  float factor = 0.0F;
};
void launch_add_scaled(const AddScaledLaunch& args, Stream stream);

/// out = base + (sum of parts + bias), or without base where that is null; the parts in the order
/// of Ops::add_partials. Everything float32 [rows, cols]; bias [cols] or null. At most
/// kMaxPartials.
struct AddPartialsLaunch {
  float* out = nullptr;
  const float* base = nullptr;
  std::span<const float* const> parts;
  std::span<const std::int32_t> merges;
  const float* bias = nullptr;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
};
void launch_add_partials(const AddPartialsLaunch& args, Stream stream);

}  // namespace headrace
