#include "model/quantizer/quantization_report.h"

#include <fmt/format.h>

#include "kernels/quantize.h"

namespace headrace {
namespace {

double megabytes(std::size_t bytes) {
  return static_cast<double>(bytes) / 1e6;
}

std::string_view type_text(Quantization type) {
  return type == Quantization::kNone ? "plain" : quantization_name(type);
}

}  // namespace

QuantizationReport::QuantizationReport(Quantization wanted, std::optional<double> max_error)
    : wanted_(wanted), max_error_(max_error) {}

std::string QuantizationReport::add(std::string lines) {
  text_ += lines;
  return lines;
}

std::string QuantizationReport::begin(std::int64_t num_tokens) {
  std::string lines =
      fmt::format("{} calibrated with {} tokens", quantization_name(wanted_), num_tokens);
  if (max_error_)
    lines += fmt::format("; an error of {} at most, or a matrix keeps more", *max_error_);
  lines +=
      "\nerror: of a matrix's products, their squared differences in parts of their squares; "
      "rounded: without calibration\n";
  return add(lines + fmt::format("{:<6}{:<9}{:<7}{:>11}{:>11}{:>12}{:>11}{:>10}\n", "layer",
                                 "matrix", "type", "rounded", "error", "mean sq.", "cosine", "MB"));
}

std::string QuantizationReport::add(const MatrixOutcome& o) {
  bytes_ += o.bytes;
  wanted_bytes_ += o.wanted_bytes;
  if (o.type == Quantization::kNone) {
    ++kept_plain_;
  } else if (o.type != wanted_ && o.matrix != "head") {
    ++kept_int8_;
  }
  return add(fmt::format("{:<6}{:<9}{:<7}{:>11.3e}{:>11.3e}{:>12.3e}{:>11.7f}{:>10.3f}\n", o.layer,
                         o.matrix, type_text(o.type), o.rounded_error, o.error.relative,
                         o.error.mean_squared, o.error.cosine, megabytes(o.bytes)));
}

std::string QuantizationReport::add_layer(int layer, const ProductError& hidden_states) {
  return add(fmt::format("{:<6}{:<9}{:<7}{:>11}{:>11.3e}{:>12.3e}{:>11.7f}\n", layer, "hidden", "",
                         "", hidden_states.relative, hidden_states.mean_squared,
                         hidden_states.cosine));
}

std::string QuantizationReport::end(const Whole& whole) {
  std::string lines = fmt::format(
      "whole model on this text: the likeliest token is the same at {} of {} positions ({:.2f} %); "
      "perplexity {:.4f}, {:.4f} without quantising ({:+.2f} %)\n",
      whole.agreeing, whole.positions,
      100.0 * static_cast<double>(whole.agreeing) / static_cast<double>(whole.positions),
      whole.perplexity, whole.plain_perplexity,
      100.0 * (whole.perplexity / whole.plain_perplexity - 1.0));
  lines += fmt::format("matrices: {:.2f} MB", megabytes(bytes_));
  if (kept_int8_ + kept_plain_ > 0) {
    lines += fmt::format(
        "; {} kept in int8 and {} as they were, which takes {:.2f} MB more than {} for all",
        kept_int8_, kept_plain_, megabytes(bytes_) - megabytes(wanted_bytes_),
        quantization_name(wanted_));
  }
  return add(lines + "\n");
}

}  // namespace headrace
