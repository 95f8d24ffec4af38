// What a file really is when it is not the weights it was taken for, and how text from such a file
// may appear in a message.
#pragma once

#include <string>
#include <string_view>

#include "model/checkpoint/input_file.h"

namespace headrace {

/// What appearance() says of a sound file of these formats.
inline constexpr std::string_view kSafetensorsAppearance = "a safetensors file";
inline constexpr std::string_view kJsonAppearance = "JSON text";

/// For messages: "an empty file", "an HTML page", "a git-lfs pointer (run git lfs pull)", ...;
/// empty where the first bytes say nothing.
std::string appearance(const InputFile& file);

/// A name read from a file, in quotes, fit for one line of a message: long ones are cut, bytes that
/// are not printable ASCII or well-formed UTF-8 are written as \xNN.
std::string in_quotes(std::string_view text);

/// Well-formed UTF-8 without control characters: what the names of keys and tensors must be.
bool is_plain_name(std::string_view text);

}  // namespace headrace
