#include "tests/fuzz/fuzz_target.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <stdexcept>

#include "model/tokenizer/unicode.h"

namespace headrace {
namespace {

struct Named {
  std::string_view name;
  FuzzTarget (*make)();
};

constexpr std::array<Named, 10> kTargets = {{{"safetensors", safetensors_target},
                                             {"safetensors_index", safetensors_index_target},
                                             {"gguf", gguf_target},
                                             {"hdf5", hdf5_target},
                                             {"config_json", config_json_target},
                                             {"tokenizer_json", tokenizer_json_target},
                                             {"gguf_tokenizer", gguf_tokenizer_target},
                                             {"sentencepiece", sentencepiece_target},
                                             {"template", template_target},
                                             {"request_line", request_line_target}}};

}  // namespace

std::vector<std::string> fuzz_target_names() {
  std::vector<std::string> names;
  for (const Named& target : kTargets) names.emplace_back(target.name);
  return names;
}

FuzzTarget make_fuzz_target(std::string_view name) {
  for (const Named& target : kTargets) {
    if (target.name != name) continue;
    FuzzTarget made = target.make();
    made.name = name;
    return made;
  }
  throw std::invalid_argument(fmt::format("there is no target \"{}\"; accepted: {}", name,
                                          fmt::join(fuzz_target_names(), ", ")));
}

void check_message(std::string_view message) {
  constexpr std::size_t kLongest = 1500;
  std::string_view what;
  if (message.empty()) what = "an empty message";
  if (message.size() > kLongest) what = "a long message";
  if (message.find_first_of(std::string_view("\n\0", 2)) != std::string_view::npos) {
    what = "a message of several lines";
  }
  if (find_invalid_utf8(message) != std::string_view::npos) what = "a message that is not UTF-8";
  if (!what.empty()) throw std::runtime_error(fmt::format("{}: {}", what, message));
}

}  // namespace headrace
