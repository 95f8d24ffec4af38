// Changes to a text before it is cut into words.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "model/tokenizer/json_node.h"

namespace headrace {

/// A stretch of the input between added tokens, on its way to becoming words.
struct Segment {
  std::string text;
  /// Whether its first character comes from the very start of the input; Metaspace's scheme "first"
  /// asks for it.
  bool at_start = false;
};

class Normalizer {
 public:
  Normalizer() = default;
  Normalizer(const Normalizer&) = delete;
  Normalizer& operator=(const Normalizer&) = delete;
  virtual ~Normalizer() = default;
  virtual void apply(Segment& segment) const = 0;
};

/// The normalizers of a file in order; a Sequence is flattened into them.
using Normalizers = std::vector<std::unique_ptr<const Normalizer>>;

/// Throws std::invalid_argument naming the node for types and values that are not known.
Normalizers parse_normalizer(const JsonNode& node);

void normalize_segment(const Normalizers& normalizers, Segment& segment);

}  // namespace headrace
