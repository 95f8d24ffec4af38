#include "model/tokenizer/tokenizer.h"

#include <fmt/format.h>

#include <stdexcept>
#include <utility>

#include "model/checkpoint/hdf5_contents.h"
#include "model/tokenizer/gguf_tokenizer.h"
#include "model/tokenizer/hugging_face_tokenizer.h"
#include "model/tokenizer/text_tokenizer.h"

namespace headrace {

std::shared_ptr<const Tokenizer> Tokenizer::load(const std::filesystem::path& model) {
  if (std::filesystem::is_directory(model)) {
    return std::make_shared<TextTokenizer>(read_hugging_face_tokenizer(model));
  }
  if (model.extension() == ".gguf" && std::filesystem::is_regular_file(model)) {
    return std::make_shared<TextTokenizer>(read_gguf_tokenizer(model));
  }
  if (is_hdf5(model)) {
    const std::filesystem::path main = hdf5_main_file(model);
    return std::make_shared<TextTokenizer>(main.extension() == ".gguf"
                                               ? read_gguf_tokenizer(main)
                                               : read_hugging_face_tokenizer(model));
  }
  throw std::invalid_argument(
      fmt::format("{}: no tokenizer; accepted: a directory with tokenizer.json or tokenizer.model, "
                  "a .gguf or a Headrace .h5 file",
                  model.string()));
}

IncrementalDecoder::IncrementalDecoder(std::shared_ptr<const Tokenizer> tokenizer,
                                       DecodeOptions options)
    : tokenizer_(std::move(tokenizer)), stream_(tokenizer_->open_stream(options)) {}

}  // namespace headrace
