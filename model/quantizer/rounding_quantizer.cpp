#include "model/quantizer/rounding_quantizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "model/weight_types.h"

namespace headrace {
namespace {

// float32 values that are read at a time, and rows that a task quantises.
constexpr std::int64_t kPieceValues = std::int64_t{4} << 20;
constexpr std::int64_t kTaskRows = 16;

class RoundingQuantizer final : public MatrixQuantizer {
 public:
  RoundingQuantizer(Checkpoint& model, ThreadPool& pool, Quantization wanted)
      : model_(model), pool_(pool), wanted_(wanted) {}

  Quantization wanted() const override { return wanted_; }

  Quantization type_of(const TensorInfo& tensor) const override {
    return tensor_quantization(tensor, wanted_);
  }

  void write(const std::string& tensor, const IntegerLayout& layout,
             const ByteSink& sink) override {
    std::vector<std::byte> bytes(layout.bytes());
    const std::int64_t piece = std::clamp<std::int64_t>(kPieceValues / layout.cols(), 1,
                                                        std::max<std::int64_t>(layout.rows(), 1));
    std::vector<float> values(static_cast<std::size_t>(piece * layout.cols()));
    const std::vector<IntegerUnit> units = integer_units(layout.bounds(), layout.type());
    for (std::int64_t row = 0; row < layout.rows(); row += piece) {
      const std::int64_t end = std::min(row + piece, layout.rows());
      model_.read_rows(tensor, row, end, values.data());
      const auto quantize = [&](std::int64_t r, IntegerRow& room) {
        quantize_row(values.data() + (r - row) * layout.cols(), units, layout.type(), room);
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
    return fmt::format("{}: every weight rounded to the nearest, without calibration\n",
                       quantization_name(wanted_));
  }

 private:
  Checkpoint& model_;
  ThreadPool& pool_;
  Quantization wanted_;
};

}  // namespace

std::unique_ptr<MatrixQuantizer> make_rounding_quantizer(Checkpoint& model, ThreadPool& pool,
                                                         Quantization wanted) {
  return std::make_unique<RoundingQuantizer>(model, pool, wanted);
}

}  // namespace headrace
