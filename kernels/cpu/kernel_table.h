// The seam between the CPU backend (plain code, built for any x86-64) and its kernels (one file per
// instruction set). Kernels are plain functions over plain structs; each works on a range of rows
// or panels, so that any thread can run any part.
#pragma once

#include <cstdint>
#include <string_view>

#include "kernels/cpu/kv_layout.h"
#include "kernels/op_checks.h"
#include "kernels/ops.h"
#include "kernels/quantize.h"

namespace headrace {

/// Columns of a weight panel: one 512-bit register of dwords, two 256-bit ones.
inline constexpr int kPanelColumns = 16;

/// Packed rows come in runs of this many dwords a row: one register to copy, one cache line to
/// read.
inline constexpr int kPackedRunDwords = 16;

/// Dwords of one packed row.
constexpr std::int64_t packed_row_dwords(std::int64_t steps, int dwords_per_step) {
  return (steps * dwords_per_step + kPackedRunDwords - 1) / kPackedRunDwords * kPackedRunDwords;
}

/// A run of dword steps along K that is summed as one chain, and how many tree nodes end with it.
struct Segment {
  std::int32_t begin = 0;
  std::int32_t end = 0;
  std::int32_t merges = 0;
  std::int32_t first_element = 0;  // of a row, in the first step; the others follow
  std::int32_t num_elements = 0;   // what is missing to whole steps counts as zero
};

/// Rows [first_row, first_row + num_rows) of x, to be rearranged into one packed block.
struct PackArgs {
  const std::byte* x = nullptr;  // [rows, k] in the compute type
  std::int64_t k = 0;
  std::int64_t first_row = 0;
  int num_rows = 0;
  std::uint32_t* packed = nullptr;  // [runs, num_rows, kPackedRunDwords]; in int8 a run is a group
  // Where rows are quantised: the slices, and where the scales of their groups go, and -128 times
  // the sums of their integers: of group g, the block's rows from g * group_stride on.
  const Segment* segments = nullptr;
  int num_segments = 0;
  float* scales = nullptr;
  std::int32_t* offsets = nullptr;
  std::int64_t group_stride = 0;
  // For int4 weights, instead of offsets, the sums of the integers of each group's two halves: of
  // half h of group g, the block's rows from (2 * g + h) * group_stride on.
  float* half_sums = nullptr;
};

enum class Epilogue { kStore, kAddTo };

/// out [rows, n] (+)= packed rows times panels [panel_begin, panel_end). Where the segments' tree
/// leaves several values, value v goes to out + v * value_stride.
struct GemmArgs {
  const std::uint32_t* packed = nullptr;  // row blocks one after the other
  std::int64_t rows = 0;
  const std::uint32_t* weights = nullptr;  // [panels, steps, 16]
  std::int64_t steps = 0;
  std::int64_t n = 0;
  std::int64_t panel_begin = 0;
  std::int64_t panel_end = 0;
  const Segment* segments = nullptr;
  int num_segments = 0;
  std::int64_t row_dwords = 0;  // of a packed row
  float* out = nullptr;         // [rows, out_stride], its columns from first_column on
  std::int64_t out_stride = 0;
  std::int64_t first_column = 0;
  std::int64_t value_stride = 0;
  const float* bias = nullptr;  // [n] or null
  Epilogue epilogue = Epilogue::kStore;
  // Of quantised weights: what pack wrote for the groups of all rows, and what columns have, int8
  // [slices, panels * 16], int4 [groups, panels * 16] scales in float16 and zero points.
  const float* row_scales = nullptr;
  const std::int32_t* row_offsets = nullptr;
  const float* row_half_sums = nullptr;
  const float* column_scales = nullptr;
  const std::uint16_t* column_scales16 = nullptr;
  const std::uint8_t* column_zeros = nullptr;
  std::int64_t column_stride = 0;
  // Where the kernel expands weights (ProductKernels::expanded_panels): the thread's room for them,
  // and the slices as they lie there, in dwords of two elements.
  std::uint32_t* expanded = nullptr;
  const Segment* expanded_segments = nullptr;
};

/// How the products with one kind of weights are taken.
struct ProductKernels {
  int tile_rows = 0;        // rows of a full register tile
  int dwords_per_step = 0;  // of a packed row: 2 where operands are expanded
  int expanded_panels = 0;  // of the weights, that become elements of the compute type at a time
  void (*pack)(const PackArgs&) = nullptr;
  void (*gemm)(const GemmArgs&) = nullptr;
};

struct NormArgs {
  const float* x = nullptr;  // [rows, row_cols]
  std::byte* out = nullptr;  // the same, in the compute type or float32; float32 may be x itself
  Norm norm;
  RowParts parts;  // what is normed; the rest of out stays
  bool float_out = false;
  std::int64_t row_cols = 0;
  std::int64_t row_begin = 0;
  std::int64_t row_end = 0;
};

/// inout [rows, cols] += (sum of parts in the order of merges + bias), rows [row_begin, row_end).
struct AddPartialsArgs {
  float* inout = nullptr;
  const float* const* parts = nullptr;  // num_parts times [rows, cols]
  const std::int32_t* merges = nullptr;
  int num_parts = 0;
  const float* bias = nullptr;  // [cols] or null
  std::int64_t cols = 0;
  std::int64_t row_begin = 0;
  std::int64_t row_end = 0;
};

struct ActivationArgs {
  const float* x = nullptr;  // [rows, cols], gated [rows, 2 * cols]
  std::byte* out = nullptr;  // [rows, out_stride] in the compute type, its first `cols` columns
  Activation activation = Activation::kSilu;
  bool gated = false;
  std::int64_t cols = 0;
  std::int64_t out_stride = 0;
  std::int64_t row_begin = 0;
  std::int64_t row_end = 0;
};

struct RopeArgs {
  const float* qkv = nullptr;      // [rows, (heads + 2 * kv_heads) * head_dim]
  const float* cos_sin = nullptr;  // [rows, rotary_dim]
  std::byte* q_out = nullptr;      // [rows, heads * head_dim] in the compute type
  AttentionShape shape;
  KvLayer kv;
  KvLayout layout;
  SequenceRows sequence;
  int row_begin = 0;  // within the sequence
  int row_end = 0;
};

/// A tile of consecutive rows of one sequence times some query heads of one KV head.
struct AttentionArgs {
  const std::byte* q = nullptr;  // [rows, heads * head_dim] in the compute type
  std::byte* out = nullptr;      // the same
  AttentionShape shape;
  KvLayer kv;
  KvLayout layout;
  SequenceRows sequence;
  int kv_head = 0;
  int head_begin = 0;  // query heads [head_begin, head_end)
  int head_end = 0;
  int row_begin = 0;  // within the sequence; rows times heads <= tile_rows
  int row_end = 0;
};

/// Attention over one kind of cache.
struct AttentionKernels {
  int tile_rows = 0;  // rows of a full tile
  void (*rope_and_store)(const RopeArgs&) = nullptr;
  /// next: the tile that the thread does after it, or null; some of its keys and values are
  /// fetched.
  void (*attend)(const AttentionArgs&, const AttentionArgs* next) = nullptr;
};

/// The kernels of one instruction set for one compute type.
struct KernelTable {
  std::string_view isa;
  ProductKernels products;  // with weights of the compute type
  ProductKernels int8_weights;
  ProductKernels int4_weights;
  void (*norm)(const NormArgs&) = nullptr;
  /// Elements [begin, end) of x, in the compute type.
  void (*convert)(const float* x, std::byte* out, std::int64_t begin, std::int64_t end) = nullptr;
  void (*activate)(const ActivationArgs&) = nullptr;
  void (*scale)(float* values, std::int64_t count, float factor) = nullptr;
  void (*add_scaled)(float* sums, const float* x, std::int64_t count, float factor) = nullptr;
  void (*soft_cap)(float* values, std::int64_t count, float cap) = nullptr;
  void (*add_partials)(const AddPartialsArgs&) = nullptr;
  AttentionKernels attention;  // of keys and values in the compute type
  RowStatistics (*row_statistics)(const float* row, std::int64_t cols) = nullptr;
  /// best takes in the logits [cols] of the ids from first_id on, none of which it has seen.
  void (*take_in_logits)(BestLogit& best, const float* logits, std::int64_t cols,
                         std::int64_t first_id) = nullptr;
};

/// What integers need of their own: products with quantised weights that quantise their inputs,
/// and the cache of int8 keys and values. Inputs and outputs are in the compute type.
struct Int8Kernels {
  ProductKernels products;
  bool signed_weights = false;  // of products; the others take int8 weights 128 too large
  ProductKernels int4_products;
  AttentionKernels attention;
};

/// Elements of K that share a dword of weights.
constexpr int elements_per_dword(Quantization quantization, DType compute_dtype) {
  if (quantization == Quantization::kInt8) return 4;
  if (quantization == Quantization::kInt4) return 8;
  return compute_dtype == DType::kBFloat16 ? 2 : 1;
}

/// Elements that integers of weights become at a time, from the beginning of each slice on.
inline constexpr int kExpandedElements = kInt4Group;

/// Slices of integers are filled up to multiples of this many elements, so that a register of
/// inputs falls into one cache line of packed rows.
inline constexpr int kIntegerSliceMultiple = 16;

/// Groups of inputs in slices of that many elements.
constexpr int num_quantization_groups(std::int32_t elements) {
  return (elements + kQuantizationGroup - 1) / kQuantizationGroup;
}

/// A matrix of `rows` rows is worked on in this many near-equal blocks; block b holds rows
/// [b * rows / blocks, (b + 1) * rows / blocks).
constexpr std::int64_t num_row_blocks(std::int64_t rows, std::int64_t tile_rows) {
  return (rows + tile_rows - 1) / tile_rows;
}

/// The table for "auto" or a name; throws std::invalid_argument naming what this CPU offers.
const KernelTable& choose_kernels(std::string_view isa, DType compute_dtype);

/// For the same names; all give the same bits.
const Int8Kernels& choose_int8_kernels(std::string_view isa, DType compute_dtype);

const KernelTable& portable_kernels(DType compute_dtype);
const KernelTable& avx2_kernels(DType compute_dtype);
const KernelTable& avx512_kernels(DType compute_dtype);
const KernelTable& avx512_bf16_kernels();  // bfloat16 only; for float32 there is nothing to gain
/// bfloat16 only; bits of their own, the same of both (amx_tiles.h).
const KernelTable& amx_kernels();
const KernelTable& emulated_amx_kernels();
const KernelTable& neon_kernels(DType compute_dtype);

const Int8Kernels& portable_int8_kernels(DType compute_dtype);
const Int8Kernels& avx2_int8_kernels(DType compute_dtype);
const Int8Kernels& avx512_vnni_int8_kernels(DType compute_dtype);
const Int8Kernels& amx_int8_kernels(DType compute_dtype);
const Int8Kernels& emulated_amx_int8_kernels(DType compute_dtype);
const Int8Kernels& neon_int8_kernels(DType compute_dtype);
const Int8Kernels& neon_dot_int8_kernels(DType compute_dtype);

}  // namespace headrace
