// cuBLASLt as far as the backend uses it: products by plain chains, row by row, so that what a row
// gets depends on nothing else, unless the settings ask for algorithms of which it does: these go
// down some chains instead of up. Attributes that are not known here are refused, as are shapes
// that do not fit each other and algorithms that were chosen for another product.
#include <cublasLt.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "kernels/flush_denormals.h"
#include "kernels/read_element.h"
#include "tests/fake_cuda/sanitizers.h"
#include "tests/fake_cuda/state.h"
#include "tests/fake_cuda/streams.h"

struct cublasLtContext {};

namespace {

using headrace::ConstTensorView;
using headrace::DType;

struct Layout {
  cudaDataType type;
  std::uint64_t rows;
  std::uint64_t cols;
  std::int64_t stride;
};
struct Description {
  std::int32_t transpose_a;
};
struct Preference {
  std::uint32_t alignment;
};
// What an algorithm was chosen for; the rest of the library's structure stays zero.
struct Algorithm {
  std::uint64_t rows;
  std::uint64_t inner;
  std::int64_t stride;
  std::uint64_t letter;  // as Settings::algorithms has it
};
constexpr std::size_t kSplit = 7;  // word with the number of pieces that K is split into

template <class Object, class Handle>
Object& as(Handle handle) {
  return *reinterpret_cast<Object*>(handle);
}

template <class Object>
Object read(const void* bytes) {
  Object object;
  std::memcpy(&object, bytes, sizeof(object));
  return object;
}

// The library's handles are pointers to structures of its own.
template <class Object, class Handle>
cublasStatus_t make(Handle* handle, const Object& object) {
  *handle = reinterpret_cast<Handle>(new Object(object));
  return CUBLAS_STATUS_SUCCESS;
}

template <class Object, class Handle>
cublasStatus_t destroy(Handle handle) {
  delete &as<Object>(handle);
  return CUBLAS_STATUS_SUCCESS;
}

// An attribute of an object takes a value of just its size.
template <class Value>
cublasStatus_t assign(Value& attribute, const void* value, std::size_t bytes) {
  if (bytes != sizeof(Value)) return CUBLAS_STATUS_INVALID_VALUE;
  attribute = read<Value>(value);
  return CUBLAS_STATUS_SUCCESS;
}

DType dtype_of(cudaDataType type) {
  if (type == CUDA_R_32F) return DType::kFloat32;
  return type == CUDA_R_16BF ? DType::kBFloat16 : DType::kFloat16;
}

// An element of the product as Ops states a chain.
float chain(const std::vector<float>& a, const std::vector<float>& b, bool pairs) {
  float sum = 0.0F;
  const std::size_t count = a.size();
  if (!pairs) {
    for (std::size_t i = 0; i < count; ++i) sum = std::fma(a[i], b[i], sum);
    return sum;
  }
  for (std::size_t i = 0; i < count; i += 2) {
    const bool pair = i + 1 < count;
    sum = std::fma(pair ? a[i + 1] : 0.0F, pair ? b[i + 1] : 0.0F, sum);
    sum = std::fma(a[i], b[i], sum);
  }
  return sum;
}

// Whether an algorithm sums the elements of a row from the last to the first.
bool goes_down(std::uint64_t letter, std::uint64_t row, std::uint64_t rows) {
  constexpr std::uint64_t kTile = 16;
  if (letter == 's') return false;
  return (letter == 'p' ? row : rows) > kTile;
}

std::vector<float> column(const void* data, const Layout& layout, std::uint64_t index) {
  const ConstTensorView view(static_cast<const std::byte*>(data), 1, 0, dtype_of(layout.type));
  std::vector<float> values(layout.rows);
  for (std::uint64_t i = 0; i < layout.rows; ++i) {
    values[i] = headrace::read_element(
        view, static_cast<std::int64_t>(index) * layout.stride + static_cast<std::int64_t>(i));
  }
  return values;
}

bool shapes_fit(const Layout& a, const Layout& b, const Layout& c) {
  return a.rows == b.rows && a.cols == c.rows && b.cols == c.cols && a.type == b.type &&
         c.type == CUDA_R_32F && a.stride >= static_cast<std::int64_t>(a.rows) &&
         b.stride >= static_cast<std::int64_t>(b.rows) &&
         c.stride >= static_cast<std::int64_t>(c.rows);
}

bool fits(const Algorithm& chosen, const Layout& weights) {
  return chosen.rows == weights.cols && chosen.inner == weights.rows &&
         chosen.stride == weights.stride;
}

// A product as it is queued.
struct Product {
  const void* a;
  Layout weights;
  const void* b;
  Layout inputs;
  float* out;
  Layout outputs;
  bool accumulate;
  std::uint64_t letter;
};

std::size_t bytes_of(const Layout& layout) {
  if (layout.rows == 0 || layout.cols == 0) return 0;
  const std::size_t element = layout.type == CUDA_R_32F ? sizeof(float) : sizeof(std::uint16_t);
  return ((layout.cols - 1) * static_cast<std::size_t>(layout.stride) + layout.rows) * element;
}

// Sums of the rows, one after another. Rows that are alike are summed once: products are tried out
// with a thousand of them.
class Sums {
 public:
  explicit Sums(const Product& product) : product_(product) {
    for (std::uint64_t n = 0; n < product.weights.cols; ++n) {
      columns_.push_back(column(product.a, product.weights, n));
    }
  }

  const std::vector<float>& of(std::uint64_t m) {
    const bool down = goes_down(product_.letter, m, product_.inputs.cols);
    std::vector<float> row = column(product_.b, product_.inputs, m);
    if (m > 0 && down == down_ && row == row_) return sums_;
    down_ = down;
    row_ = std::move(row);
    sums_.clear();
    const bool pairs = product_.weights.type != CUDA_R_32F;
    for (const std::vector<float>& weights : columns_) {
      sums_.push_back(
          down ? chain({row_.rbegin(), row_.rend()}, {weights.rbegin(), weights.rend()}, pairs)
               : chain(row_, weights, pairs));
    }
    return sums_;
  }

 private:
  const Product& product_;
  std::vector<std::vector<float>> columns_;
  bool down_ = false;
  std::vector<float> row_;
  std::vector<float> sums_;
};

void compute(const Product& product) {
  headrace::fake_cuda::tell_read(product.a, bytes_of(product.weights));
  headrace::fake_cuda::tell_read(product.b, bytes_of(product.inputs));
  headrace::fake_cuda::tell_written(product.out, bytes_of(product.outputs));
  const headrace::FlushDenormals guard;
  Sums sums(product);
  for (std::uint64_t m = 0; m < product.inputs.cols; ++m) {
    const std::vector<float>& row = sums.of(m);
    float* out = product.out + static_cast<std::int64_t>(m) * product.outputs.stride;
    for (std::size_t n = 0; n < row.size(); ++n) {
      out[n] = product.accumulate ? out[n] + row[n] : row[n];
    }
  }
}

}  // namespace

const char* cublasLtGetStatusString(cublasStatus_t status) {
  return status == CUBLAS_STATUS_SUCCESS ? "success" : "refused by the fake cuBLASLt";
}

std::size_t cublasLtGetVersion() {
  return CUBLAS_VERSION;
}

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  *handle = new cublasLtContext;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* description,
                                        cublasComputeType_t compute, cudaDataType_t scale) {
  if (compute != CUBLAS_COMPUTE_32F || scale != CUDA_R_32F) return CUBLAS_STATUS_NOT_SUPPORTED;
  return make(description, Description{CUBLAS_OP_N});
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t description) {
  return destroy<Description>(description);
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t description,
                                              cublasLtMatmulDescAttributes_t attribute,
                                              const void* value, std::size_t bytes) {
  if (attribute != CUBLASLT_MATMUL_DESC_TRANSA) return CUBLAS_STATUS_NOT_SUPPORTED;
  return assign(as<Description>(description).transpose_a, value, bytes);
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType type,
                                          std::uint64_t rows, std::uint64_t cols,
                                          std::int64_t stride) {
  return make(layout, Layout{type, rows, cols, stride});
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  return destroy<Layout>(layout);
}

cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                                cublasLtMatrixLayoutAttribute_t attribute,
                                                const void* value, std::size_t bytes) {
  if (attribute != CUBLASLT_MATRIX_LAYOUT_COLS) return CUBLAS_STATUS_NOT_SUPPORTED;
  return assign(as<Layout>(layout).cols, value, bytes);
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
  return make(preference, Preference{256});
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  return destroy<Preference>(preference);
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void* value, std::size_t bytes) {
  switch (attribute) {
    case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES:
      return bytes == sizeof(std::uint64_t) ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
    case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK:
      return read<std::uint32_t>(value) == CUBLASLT_REDUCTION_SCHEME_NONE
                 ? CUBLAS_STATUS_SUCCESS
                 : CUBLAS_STATUS_NOT_SUPPORTED;
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES:
      return assign(as<Preference>(preference).alignment, value, bytes);
    default:
      return CUBLAS_STATUS_NOT_SUPPORTED;
  }
}

// One that splits the sum, which the backend has to pass over, then those of the settings.
cublasStatus_t cublasLtMatmulAlgoGetHeuristic(
    cublasLtHandle_t /*handle*/, cublasLtMatmulDesc_t /*description*/, cublasLtMatrixLayout_t a,
    cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t /*d*/,
    cublasLtMatmulPreference_t preference, int most, cublasLtMatmulHeuristicResult_t results[],
    int* count) {
  if (headrace::fake_cuda::fails("cublasLtMatmulAlgoGetHeuristic")) {
    return CUBLAS_STATUS_INTERNAL_ERROR;
  }
  const std::string letters = 's' + headrace::fake_cuda::settings().algorithms;
  if (most < static_cast<int>(letters.size()) ||
      !shapes_fit(as<Layout>(a), as<Layout>(b), as<Layout>(c)) ||
      as<Preference>(preference).alignment > 16) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  for (std::size_t i = 0; i < letters.size(); ++i) {
    const Algorithm chosen{as<Layout>(a).cols, as<Layout>(a).rows, as<Layout>(a).stride,
                           static_cast<std::uint64_t>(letters[i])};
    results[i] = {};
    results[i].state = CUBLAS_STATUS_SUCCESS;
    std::memcpy(results[i].algo.data, &chosen, sizeof(chosen));
    results[i].algo.data[kSplit] = i == 0 ? 4 : 1;
  }
  *count = static_cast<int>(letters.size());
  return CUBLAS_STATUS_SUCCESS;
}

// Whether the settings still have it, for the product that it was chosen for.
cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t /*handle*/, cublasLtMatmulDesc_t /*desc*/,
                                       cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                       cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t /*d*/,
                                       const cublasLtMatmulAlgo_t* algorithm,
                                       cublasLtMatmulHeuristicResult_t* result) {
  const auto chosen = read<Algorithm>(algorithm->data);
  const std::string letters = headrace::fake_cuda::settings().algorithms;
  if (headrace::fake_cuda::fails("cublasLtMatmulAlgoCheck") ||
      !shapes_fit(as<Layout>(a), as<Layout>(b), as<Layout>(c)) || !fits(chosen, as<Layout>(a)) ||
      letters.find(static_cast<char>(chosen.letter)) == std::string::npos) {
    return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  *result = {};
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoConfigGetAttribute(const cublasLtMatmulAlgo_t* algorithm,
                                                    cublasLtMatmulAlgoConfigAttributes_t attribute,
                                                    void* value, std::size_t bytes,
                                                    std::size_t* written) {
  if (attribute != CUBLASLT_ALGO_CONFIG_SPLITK_NUM || bytes != sizeof(std::int32_t)) {
    return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  const auto split = static_cast<std::int32_t>(algorithm->data[kSplit]);
  std::memcpy(value, &split, sizeof(split));
  *written = sizeof(split);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t /*handle*/, cublasLtMatmulDesc_t description,
                              const void* alpha, const void* a, cublasLtMatrixLayout_t a_layout,
                              const void* b, cublasLtMatrixLayout_t b_layout, const void* beta,
                              const void* c, cublasLtMatrixLayout_t c_layout, void* d,
                              cublasLtMatrixLayout_t d_layout,
                              const cublasLtMatmulAlgo_t* algorithm, void* /*workspace*/,
                              std::size_t /*workspace_bytes*/, cudaStream_t stream) {
  const Layout& weights = as<Layout>(a_layout);
  const Layout& inputs = as<Layout>(b_layout);
  const Layout& outputs = as<Layout>(d_layout);
  const auto chosen = read<Algorithm>(algorithm->data);
  if (stream == nullptr || c != d || c_layout != d_layout || read<float>(alpha) != 1.0F ||
      as<Description>(description).transpose_a != CUBLAS_OP_T || algorithm->data[kSplit] != 1 ||
      !shapes_fit(weights, inputs, outputs) || !fits(chosen, weights)) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  if (chosen.letter == 'o' && inputs.cols == 1) return CUBLAS_STATUS_NOT_SUPPORTED;
  if (headrace::fake_cuda::check_stream("cublasLtMatmul", stream) != cudaSuccess ||
      headrace::fake_cuda::fails("cublasLtMatmul")) {
    return CUBLAS_STATUS_EXECUTION_FAILED;
  }
  headrace::fake_cuda::enqueue(
      stream, [product = Product{a, weights, b, inputs, static_cast<float*>(d), outputs,
                                 read<float>(beta) != 0.0F, chosen.letter}] {
        compute(product);
        return true;
      });
  return CUBLAS_STATUS_SUCCESS;
}
