// What turns a model's matrices into integers while it is converted: by rounding alone, or as a
// calibration found best.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>

#include "model/checkpoint/checkpoint.h"
#include "model/checkpoint/integer_layout.h"

namespace headrace {

using ByteSink = std::function<void(std::span<const std::byte>)>;

class MatrixQuantizer {
 public:
  virtual ~MatrixQuantizer() = default;

  /// What was asked for; single matrices may keep more.
  virtual Quantization wanted() const = 0;

  /// What the tensor becomes; kNone: its values stay.
  virtual Quantization type_of(const TensorInfo& tensor) const = 0;

  /// Hands on the bytes of a tensor that becomes integers, in order. layout: of its type_of().
  virtual void write(const std::string& tensor, const IntegerLayout& layout,
                     const ByteSink& sink) = 0;

  /// What it did to which matrix and how far that is off, for people.
  virtual std::string report() const = 0;
};

}  // namespace headrace
