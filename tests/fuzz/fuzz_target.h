// What is fed with damaged inputs: a reader of one format, and sound inputs to begin with.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "tests/fuzz/mutator.h"

namespace headrace {

struct FuzzTarget {
  std::string name;
  Mutator::Material material;
  /// Reads the input whatever it holds. True where it is taken, false where it is refused as it
  /// should be. All else that happens is a finding: any other exception, a crash, a long wait,
  /// memory beyond what the input's size justifies.
  std::function<bool(const std::string&)> accepts;
  /// The largest single allocation that is no finding: so much, and so much a byte of the input.
  std::size_t buffer_bytes = std::size_t{5} << 20;  // a reader's buffers
  std::size_t bytes_per_byte = 8;
};

/// "safetensors", "gguf", ...
std::vector<std::string> fuzz_target_names();

/// Throws std::invalid_argument naming those that there are.
FuzzTarget make_fuzz_target(std::string_view name);

/// Throws std::runtime_error where a message is not one short line of UTF-8.
void check_message(std::string_view message);

// The targets, by what they read.
FuzzTarget safetensors_target();
FuzzTarget safetensors_index_target();
FuzzTarget gguf_target();
FuzzTarget hdf5_target();
FuzzTarget config_json_target();
FuzzTarget tokenizer_json_target();
FuzzTarget gguf_tokenizer_target();
FuzzTarget sentencepiece_target();
FuzzTarget template_target();
FuzzTarget request_line_target();

}  // namespace headrace
