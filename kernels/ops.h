// The operator interface of one device. Every backend gives a row the same bits whatever its
// neighbours in the batch are, whatever the thread count, the KV block size or the cut of a prompt
// into chunks; the CPU backend gives the bits of the reference backend, the one for GPUs its own
// (cuda_backend.h). Nothing here allocates once the matrices are loaded and the workspace is
// reserved.
//
// Numbers: weights that are not quantised, matrix inputs and the KV cache have the compute type
// (float32 or bfloat16); the hidden state, sums and logits are float32. A float32 value becomes
// bfloat16 by round-to-nearest-even. Denormals count as zero while an operator runs
// (flush_denormals.h); exp and log are numeric.h's; divisions and square roots are IEEE's; nothing
// is fused but what is called a fused multiply-add here.
//
// A chain over k is one fused multiply-add an element, ascending, from zero. In bfloat16 elements
// go in pairs (2i, 2i + 1): within a pair the odd one first, each a float32 fused multiply-add, an
// odd count filled up with a zero. That is what the dot product instruction of x86 computes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "kernels/device_arena.h"
#include "kernels/random_values.h"
#include "kernels/reduction_tree.h"
#include "kernels/tensor.h"

namespace headrace {

class ThreadPool;

/// Rows of quantised weights: integers, and a scale for each of a row's units (quantize.h). Int8: a
/// unit is a slice, integers are from -127 to 127, zeros is null. Int4: a unit is a group, integers
/// are from 0 to 15, scales are float16's values, and zeros has the zero points.
struct IntegerRows {
  std::int64_t rows = 0;
  const std::int8_t* integers = nullptr;  // [rows, k]
  const float* scales = nullptr;          // [rows, units]
  const std::uint8_t* zeros = nullptr;    // [rows, units]
};

/// A weight matrix in the backend's own layout: [n, k], used as x [m, k] times its transpose.
class Matrix {
 public:
  virtual ~Matrix() = default;
  virtual std::int64_t n() const = 0;
  virtual std::int64_t k() const = 0;
  /// Values that its reduction tree leaves an element of the product: 1 for a whole tree.
  virtual int num_values() const = 0;
  virtual std::size_t bytes() const = 0;

  /// Stores rows [first_row, first_row + rows.rows) from a float32, bfloat16 or float16 view
  /// [rows, k], rounding to the compute type or quantising. Loading only; each row is stored once.
  /// The thread that made the operators calls it, and the work is shared by theirs.
  virtual void set_rows(std::int64_t first_row, ConstTensorView rows) = 0;

  /// The same with values that the backend draws itself, where its memory is; false where it does
  /// not, and set_rows() has to.
  virtual bool make_rows(std::int64_t first_row, const RandomRows& rows);

  /// The same of a quantised matrix, from rows that are quantised already; by any thread, and by
  /// several for different rows at once. Throws std::logic_error where there is no such matrix.
  virtual void set_integer_rows(std::int64_t first_row, const IntegerRows& rows);
};

/// What becomes of the inputs of a product with quantised weights. kInt8: they are quantised, too,
/// when it is taken (W8A8, W4A8 in the field's terms). kCompute: nothing (W8A16, W4A16).
enum class QuantizedInputs : std::uint8_t { kInt8, kCompute };

/// How weights are kept. kNone: in the compute type. kInt8, kInt4: as integers with scales
/// (quantize.h). With inputs of int8 a group of columns is the exact sum of the integers' products
/// as a float32, of int4 weights without their zero points. A slice is a chain of fused
/// multiply-adds over its groups, ascending, from zero: in int8 of sum and input's scale, over the
/// groups of inputs, and at the end it is multiplied by the weight's; in int4 of (sum * input's
/// scale) and weight's scale, over the groups of weights. With inputs of the compute type a slice
/// of int8 weights is one chain over the integers, multiplied by the weight's scale; of int4
/// weights each group is a chain over the integers less their zero points, and a slice a chain of
/// fused multiply-adds of these and their scales (where tiles add, SumOrder, each int4 weight is
/// rounded to bfloat16 instead, and its slices are those of bfloat16 weights). From there on it
/// goes through the tree like any other. Embedding gives an integer times its scale.
enum class Quantization : std::uint8_t { kNone, kInt8, kInt4 };

struct MatrixSpec {
  std::int64_t n = 0;
  std::int64_t k = 0;
  ReductionTree tree;
  Quantization quantization = Quantization::kNone;
  QuantizedInputs inputs = QuantizedInputs::kInt8;  // where weights are quantised
};

/// How keys and values are kept in the cache: in the compute type, or as int8 with a scale for each
/// key and each value.
enum class KvType : std::uint8_t { kCompute, kInt8 };

/// How the heads of one attention layer lie beside each other, and what they see.
struct AttentionShape {
  int num_heads = 0;  // query heads; a multiple of num_kv_heads
  int num_kv_heads = 0;
  int head_dim = 0;
  int rotary_dim = 0;     // leading dimensions of a head that RoPE turns; 0 for none, even
  float scale = 0.0F;     // of query times key, usually 1 / sqrt(head_dim)
  int window = 0;         // keys that a row sees, its own the last; 0: all up to its own
  float soft_cap = 0.0F;  // scores become soft_cap * tanh(score / soft_cap); 0: they stay
  KvType kv_type = KvType::kCompute;
  // One more score for each query head, as if of a key that all rows see and whose value is zero:
  // [num_heads], in the arena; null for none.
  const float* sinks = nullptr;
};

enum class NormKind : std::uint8_t { kRms, kLayer };

/// A norm over consecutive values. kRms: (x * (1 / sqrt(mean(x^2) + eps))) * weight. kLayer:
/// ((x - mean) * (1 / sqrt(mean((x - mean)^2) + eps))) * weight + bias. Values, or their squares by
/// fused multiply-adds, are summed in 16 interleaved chains (chain j: elements i with i % 16 == j,
/// ascending) added pairwise: (j, j + 8), (j, j + 4), (j, j + 2), (j, j + 1).
struct Norm {
  NormKind kind = NormKind::kRms;
  float eps = 0.0F;
  const float* weight = nullptr;  // one value a column
  const float* bias = nullptr;    // the same; null for none; only kLayer has one
};

/// Rows that go into a product: in the compute type; or float32 ones with the norm that they go
/// through first, for products that take it as they read them (Ops::norms_inputs()); or such as the
/// backend has packed for one matrix (Ops::matmul_activate()).
struct ProductInput {
  // Implicit: to most callers a product's input is just its rows.
  ProductInput(const TensorView& rows) : view(rows) {}
  ProductInput(const ConstTensorView& rows) : view(rows) {}
  ProductInput(const ConstTensorView& rows, const Norm& of_rows) : view(rows), norm(of_rows) {}

  ConstTensorView view;
  std::optional<Norm> norm;
  const Matrix* packed_for = nullptr;  // what the view's memory holds is only for products with it
};

/// Parts of a row that an operator takes one by one: `count` parts of `width` columns beside each
/// other, the first at column `begin`.
struct RowParts {
  std::int64_t begin = 0;
  std::int64_t width = 0;
  std::int64_t count = 1;
};

/// kSilu: x / (1 + exp(-x)). kGeluTanh and kGeluErf: x * Phi(x), by the approximation with tanh and
/// without it (numeric.h).
enum class Activation : std::uint8_t { kSilu, kGeluTanh, kGeluErf };

/// Keys between two rescalings of attention's online soft-max. A row reads whole chunks, from the
/// one in which its window begins.
inline constexpr int kAttentionChunk = 64;

/// One layer's part of the paged KV cache. The bytes of a block are the backend's business.
struct KvLayer {
  std::byte* data = nullptr;    // num_blocks * block_bytes
  std::size_t block_bytes = 0;  // as Ops::kv_block_bytes says
  int block_tokens = 0;         // a power of two from 16 to 256
};

/// Consecutive rows of one sequence inside a step.
struct SequenceRows {
  std::int32_t first_row = 0;
  std::int32_t num_rows = 0;
  std::int32_t first_position = 0;       // of the first row; the others follow
  const std::int32_t* blocks = nullptr;  // ids; cover positions [0, first_position + num_rows)
  // Tokens that the sequence may come to, known from its start; 0 where nothing depends on it. For
  // what makes the operators' inputs, not for them.
  std::int32_t max_length = 0;
};

/// Log-softmax facts of one row of logits.
struct RowStatistics {
  float max = 0.0F;
  float log_sum_exp = 0.0F;  // log(sum over ids of exp(logit)), the maximum included
};

/// What becomes of a product with the head before it counts as a logit: value * scale, then
/// soft_cap * tanh(value / soft_cap); each only where it changes anything (1 and 0 do not).
struct LogitChange {
  float scale = 1.0F;
  float soft_cap = 0.0F;
};

/// The first logit of a row, by logit descending, then id ascending: what greedy sampling takes.
struct BestLogit {
  float value = 0.0F;    // not a number where any logit of the row is none, or is infinite
  std::int32_t id = -1;  // -1 where the value is not a number
};

/// Of two parts of a row the better one; not a number where either is.
inline BestLogit better(const BestLogit& a, const BestLogit& b) {
  const bool a_is_number = a.value == a.value;
  if (!a_is_number || a.value > b.value) return a;
  if (b.value == a.value && a.id < b.id) return a;
  return b;
}

struct LeadingLogit {
  std::int32_t id = 0;
  float logit = 0.0F;
};

/// What most draws need of a row of logits at a temperature (runtime/sampling/token_choice.h).
struct RowLeaders {
  float max = 0.0F;
  // Of exp_nonpositive((logit - max) * (1 / temperature)) of all ids, slices and chains as in
  // row_statistics().
  float total = 0.0F;
  // Leading are all ids whose logit is at least this, in any order; nothing is known of the others
  // but that theirs are less.
  float floor = std::numeric_limits<float>::infinity();
  std::span<const LeadingLogit> leading = {};
};

/// A product of which only activate() is wanted: the weights have a row for each column of what
/// comes out, or gates' rows first and then as many of what they multiply.
struct ActivatedProduct {
  const Matrix& w;
  const float* bias = nullptr;  // n floats, or null
  Activation activation = Activation::kSilu;
  TensorView room;  // float32 [m, n], in the arena, for backends that take a product as a whole
  const Matrix* reader = nullptr;  // the one matrix that what comes out is multiplied with, or null
};

class Ops {
 public:
  virtual ~Ops() = default;

  /// float32 or bfloat16 (on GPUs float16 too): the type of matrix inputs and of the KV cache.
  virtual DType compute_dtype() const = 0;

  /// Where tensors, weights of norms, biases and caches lie. It lives as long as the operators.
  virtual DeviceArena& arena() = 0;

  /// The tree's k() must equal k; in bfloat16 every bound but the last has to be even. Only
  /// matmul_partial() takes a matrix whose tree leaves several values. Throws
  /// std::invalid_argument or std::bad_alloc.
  virtual std::unique_ptr<Matrix> make_matrix(MatrixSpec spec) = 0;

  /// Makes room for operators over up to max_rows rows and up to max_context positions. head_dim
  /// may be any even number up to 512. Throws std::invalid_argument.
  virtual void reserve(int max_rows, int max_context, const AttentionShape& shape) = 0;

  /// Bytes that reserve() takes from the arena.
  virtual std::size_t reserve_bytes(int max_rows, int max_context,
                                    const AttentionShape& shape) const = 0;

  /// out float32 [rows, k] = the rows of table named by ids.
  virtual void embed(TensorView out, const Matrix& table, std::span<const std::int32_t> ids) = 0;

  /// out [rows, h] = x [rows, h], normed. x is float32, out float32 or the compute type; a float32
  /// out may be x itself.
  virtual void norm(TensorView out, ConstTensorView x, const Norm& norm) = 0;

  /// Norms parts of each row of inout float32 in place, each part by itself and with the same
  /// weights [parts.width].
  virtual void norm_parts(TensorView inout, const RowParts& parts, const Norm& norm) = 0;

  /// out compute type [rows, h] = x float32 [rows, h], rounded; x holds no denormals, like all that
  /// operators give.
  virtual void convert(TensorView out, ConstTensorView x) = 0;

  /// Whether matmul() and matmul_activate() take inputs that are still to be normed; each row gets
  /// the bits that norm() gives it.
  virtual bool norms_inputs() const { return false; }

  /// out float32 [m, n] = x [m, k] (compute type) times w's transpose, plus bias (n floats, or
  /// null).
  virtual void matmul(TensorView out, const ProductInput& x, const Matrix& w,
                      const float* bias) = 0;

  /// inout float32 [m, n] += (x times w's transpose + bias): the residual is added to the finished
  /// sum.
  virtual void matmul_add(TensorView inout, const ProductInput& x, const Matrix& w,
                          const float* bias) = 0;

  /// The part of a product that this rank's share of K gives: out float32 [num_values * m, n], the
  /// first value of every element in rows [0, m), the second in [m, 2 * m) and so on.
  virtual void matmul_partial(TensorView out, const ProductInput& x, const Matrix& w) = 0;

  /// inout float32 [m, n] += (sum of parts + bias), the parts (float32 [m, n] each) added in
  /// post-order: after part i, merges[i] times the last two (earlier + later). With all ranks'
  /// parts of a product, bit for bit what matmul_add() gives for the whole matrix.
  virtual void add_partials(TensorView inout, std::span<const float* const> parts,
                            std::span<const std::int32_t> merges, const float* bias) = 0;

  /// Turns queries and keys by their positions and writes keys and values into the cache:
  /// (a, b) becomes (a * cos - b * sin, b * cos + a * sin), every operation rounded.
  /// qkv float32 [rows, (heads + 2 * kv_heads) * head_dim], queries first, then keys, then values;
  /// cos_sin float32 [rows, rotary_dim]: rotary_dim / 2 cosines, then as many sines (dimension i
  /// turns with dimension i + rotary_dim / 2); q_out compute type [rows, heads * head_dim].
  virtual void rope_and_store_kv(TensorView q_out, ConstTensorView qkv, const float* cos_sin,
                                 const AttentionShape& shape, const KvLayer& kv,
                                 std::span<const SequenceRows> sequences) = 0;

  /// Causal attention over the cache. out and q: compute type [rows, heads * head_dim].
  /// Keys are walked in chunks of 64 from position 0 with an online soft-max; what lies in masked
  /// or unwritten slots never shows. Same operations for a row whether it is decoded or part of a
  /// prompt chunk. For each chunk: score = chain(query, key) * scale, soft-capped; m' = max(m,
  /// scores); p = exp(score - m') rounded to the compute type; total = fma(total, exp(m - m'), sum
  /// of p in 16 interleaved chains as in a norm); sum[d] = chain of p * value[d] over the chunk's
  /// tokens, from sum[d] * exp(m - m'). At the end out[d] = sum[d] * (1 / total); with sinks, the
  /// head's enters there, once: m' = max(m, sink), r = exp(m - m'), out[d] = sum[d] * (r /
  /// fma(total, r, exp(sink - m'))). A sink of -infinity leaves the bits that there are without.
  /// From an int8 cache: queries are quantised too, one scale each. score = (sum of the integers'
  /// products * (query's scale * scale)) * key's scale. p stays float32, and p times the value's
  /// scale is quantised, one scale a chunk: sum[d] = fma(sum of the integers' products, that scale,
  /// sum[d] * exp(m - m')).
  /// With a window, chunks that lie behind it for a row are not read for that row; in the chunk
  /// where it begins, p of the keys behind it is zero.
  virtual void attention(TensorView out, ConstTensorView q, const AttentionShape& shape,
                         const KvLayer& kv, std::span<const SequenceRows> sequences) = 0;

  /// out compute type [rows, i] = activation(x), x float32 [rows, i]; or, where x has twice as many
  /// columns, activation(gate) * up, gates first.
  virtual void activate(TensorView out, ConstTensorView x, Activation activation) = 0;

  /// out compute type [m, i] = what activate() makes of x [m, k] (compute type) times w's transpose
  /// plus bias. Every backend has to say how it is done; this one does it by matmul() and
  /// activate(), whose bits it always has. Gives `out` as an input of products with the reader: it
  /// may be packed for these.
  virtual ProductInput matmul_activate(TensorView out, const ProductInput& x,
                                       const ActivatedProduct& product) = 0;

  /// inout float32 = inout * factor.
  virtual void scale(TensorView inout, float factor) = 0;

  /// inout float32 [rows, h] = inout + x * factor, both operations rounded; x float32 [rows, h].
  virtual void add_scaled(TensorView inout, ConstTensorView x, float factor) = 0;

  /// inout float32 = cap * tanh(inout / cap).
  virtual void soft_cap(TensorView inout, float cap) = 0;

  /// One entry a row of logits float32 [rows, vocab]; exp(logit - max) is summed over fixed slices
  /// of 1,024 ids (in a slice 16 interleaved chains as in a norm), slices in ascending order.
  virtual void row_statistics(std::span<RowStatistics> out, ConstTensorView logits) = 0;

  /// The best of each row of x [m, k] (compute type) times w's transpose, without keeping the
  /// others: one entry a row. room: float32 [m, n], in the arena; backends that take a product as a
  /// whole write the logits there, others leave it as it is.
  virtual void best_logits(std::span<BestLogit> out, ConstTensorView x, const Matrix& w,
                           const LogitChange& change, TensorView room) = 0;

  /// The leaders of rows of logits float32 [rows, vocab], each at its own temperature, from 1e-5 to
  /// 1e30: one entry a row, until the next call. A row with temperature 0, or too many ids close to
  /// its maximum, has none leading. Backends whose logits the host reaches give no entries at all:
  /// there rows are read as they are.
  virtual std::span<const RowLeaders> leading_logits(ConstTensorView logits,
                                                     std::span<const float> temperatures) = 0;

  /// Bytes of one block of one layer: keys and values of block_tokens positions.
  virtual std::size_t kv_block_bytes(const AttentionShape& shape, int block_tokens) const = 0;
};

inline ProductInput Ops::matmul_activate(TensorView out, const ProductInput& x,
                                         const ActivatedProduct& product) {
  matmul(product.room, x, product.w, product.bias);
  activate(out, product.room, product.activation);
  return out;
}

/// What becomes of products with the head: by scale() and soft_cap().
inline void change_logits(Ops& ops, TensorView logits, const LogitChange& change) {
  if (change.scale != 1.0F) ops.scale(logits, change.scale);
  if (change.soft_cap > 0.0F) ops.soft_cap(logits, change.soft_cap);
}

/// How products of bfloat16 are added: as one chain, or as the tiles of x86 (AMX) do it, of every
/// 32 elements the even and the odd ones as chains of their own.
enum class SumOrder { kChain, kTiles };

/// Plain loops, the statement of what every backend computes. Slow; the oracle of tests.
std::unique_ptr<Ops> make_reference_ops(DType compute_dtype, SumOrder order = SumOrder::kChain);

/// The fast backend. The pool must outlive it. isa: "auto", "avx2", "avx512", "avx512_bf16" (avx512
/// with the bfloat16 dot product instruction), "no_amx" (the fastest of these) or "portable", which
/// all give the same bits; "amx" or "amx_emulated", which give the same bits as each other and in
/// bfloat16 other ones. Throws std::invalid_argument naming the choices when this CPU lacks it.
std::unique_ptr<Ops> make_cpu_ops(DType compute_dtype, ThreadPool& pool,
                                  std::string_view isa = "auto");

/// How make_cpu_ops() with the same arguments adds; throws as it does.
SumOrder cpu_sum_order(DType compute_dtype, std::string_view isa);

/// What this CPU offers, for --version: for example "avx2 avx512f avx512_bf16".
std::string_view cpu_features();
bool cpu_has(std::string_view feature);

}  // namespace headrace
