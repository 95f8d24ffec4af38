// Quantising with a text: the model runs over it layer by layer, and each matrix is quantised for
// the inputs that it meets there. What a matrix loses is measured with its own products, and a
// matrix that loses more than allowed keeps a wider type: int4, int8, or its values as they are.
// Next to the plain model runs the quantised one, so that at the end both are compared as wholes.
//
// Memory: the text's hidden states twice, the weights of a layer, and what the statistics of its
// inputs take. Finished integers wait in a file that has no name.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/thread_pool.h"
#include "model/quantizer/matrix_quantizer.h"
#include "model/token.h"

namespace headrace {

struct CalibrationOptions {
  Quantization wanted = Quantization::kInt8;
  std::optional<double> max_layer_error;  // ProductError::relative of a matrix
  std::vector<TokenId> tokens;            // at least two
  std::filesystem::path directory;        // for what waits to be written
};

/// Calibrates. tell: the report, a line or more at a time, as it comes. model and pool must outlive
/// the result. Throws std::invalid_argument for a text that is too short or a directory that cannot
/// be written, and what reading throws.
std::unique_ptr<MatrixQuantizer> make_calibrated_quantizer(
    Checkpoint& model, ThreadPool& pool, CalibrationOptions options,
    const std::function<void(std::string_view)>& tell);

}  // namespace headrace
