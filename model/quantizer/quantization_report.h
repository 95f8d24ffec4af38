// What a calibration found out about a model's matrices, as a table for people.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "kernels/ops.h"
#include "model/quantizer/product_error.h"

namespace headrace {

/// A matrix as the model runs it: "qkv", "output", "gate_up", "down", or "head".
struct MatrixOutcome {
  int layer = 0;
  std::string matrix;
  Quantization type = Quantization::kNone;  // that it has in the end
  ProductError error;                       // with that type; none where it stays as it was
  double rounded_error = 0.0;               // relative, as wanted, without calibration
  std::size_t bytes = 0;                    // in the file
  std::size_t wanted_bytes = 0;             // of the type that was asked for
};

class QuantizationReport {
 public:
  explicit QuantizationReport(Quantization wanted, std::optional<double> max_error);

  /// Each returns the lines that it adds.
  std::string begin(std::int64_t num_tokens);
  std::string add(const MatrixOutcome& outcome);
  std::string add_layer(int layer, const ProductError& hidden_states);

  struct Whole {
    std::size_t agreeing = 0;  // positions whose likeliest next token is the same
    std::size_t positions = 0;
    double plain_perplexity = 0.0;
    double perplexity = 0.0;
  };
  std::string end(const Whole& whole);

  const std::string& text() const { return text_; }

 private:
  std::string add(std::string lines);

  Quantization wanted_;
  std::optional<double> max_error_;
  std::string text_;
  int kept_int8_ = 0;
  int kept_plain_ = 0;
  std::size_t bytes_ = 0;
  std::size_t wanted_bytes_ = 0;
};

}  // namespace headrace
