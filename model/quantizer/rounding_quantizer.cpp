#include "model/quantizer/rounding_quantizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "model/quantizer/stochastic_rounding.h"
#include "model/weight_types.h"

namespace headrace {
namespace {

// float32 values that are read at a time, and rows that a task quantises.
constexpr std::int64_t kPieceValues = std::int64_t{4} << 20;
constexpr std::int64_t kTaskRows = 16;

class RoundingQuantizer final : public MatrixQuantizer {
 public:
  RoundingQuantizer(Checkpoint& model, ThreadPool& pool, const RoundingOptions& options)
      : model_(model), pool_(pool), options_(options) {}

  Quantization wanted() const override { return options_.wanted; }

  Quantization type_of(const TensorInfo& tensor) const override {
    return tensor_quantization(tensor, options_.wanted);
  }

  void write(const std::string& tensor, const IntegerLayout& layout,
             const ByteSink& sink) override {
    std::vector<std::byte> bytes(layout.bytes());
    const std::int64_t piece = std::clamp<std::int64_t>(kPieceValues / layout.cols(), 1,
                                                        std::max<std::int64_t>(layout.rows(), 1));
    std::vector<float> values(static_cast<std::size_t>(piece * layout.cols()));
    const std::vector<IntegerUnit> units = integer_units(layout.bounds(), layout.type());
    std::optional<StochasticRounding> by_chance;
    if (options_.stochastic_seed) by_chance.emplace(*options_.stochastic_seed, tensor);
    for (std::int64_t row = 0; row < layout.rows(); row += piece) {
      const std::int64_t end = std::min(row + piece, layout.rows());
      model_.read_rows(tensor, row, end, values.data());
      const auto quantize = [&](std::int64_t r, IntegerRow& room) {
        const float* source = values.data() + (r - row) * layout.cols();
        if (by_chance) {
          by_chance->quantize(r, source, units, layout.type(), room);
        } else {
          quantize_row(source, units, layout.type(), room);
        }
        for (std::size_t s = 0; s < layout.num_slices(); ++s) {
          layout.encode(s, room.view(), bytes.data() + layout.record_offset(s, r));
        }
      };
      pool_.parallel_for(static_cast<int>((end - row + kTaskRows - 1) / kTaskRows), [&](int task) {
        IntegerRow room(layout.cols(), units.size());
        const std::int64_t first = row + task * kTaskRows;
        for (std::int64_t r = first; r < std::min(first + kTaskRows, end); ++r) quantize(r, room);
      });
    }
    sink(bytes);
  }

  std::string report() const override {
    const std::string how = options_.stochastic_seed ? fmt::format("up or down by chance, seed {}",
                                                                   *options_.stochastic_seed)
                                                     : std::string("to the nearest");
    return fmt::format("{}: every weight rounded {}, without calibration\n",
                       quantization_name(options_.wanted), how);
  }

 private:
  Checkpoint& model_;
  ThreadPool& pool_;
  RoundingOptions options_;
};

}  // namespace

std::unique_ptr<MatrixQuantizer> make_rounding_quantizer(Checkpoint& model, ThreadPool& pool,
                                                         const RoundingOptions& options) {
  return std::make_unique<RoundingQuantizer>(model, pool, options);
}

}  // namespace headrace
