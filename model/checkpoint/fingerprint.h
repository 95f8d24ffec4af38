// A short text that tells one set of weights from another without reading all of it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "model/checkpoint/input_file.h"

namespace headrace {

/// 32 hexadecimal digits (XXH3, 128 bits) over the configuration's text and, for each file in
/// order, its size, its first header_bytes[i] bytes and 64 KiB at 16 places spaced evenly from the
/// header's end to the file's end. Names and places of the files do not matter.
std::string weights_fingerprint(std::string_view config, const std::vector<InputFile>& files,
                                const std::vector<std::uint64_t>& header_bytes);

}  // namespace headrace
