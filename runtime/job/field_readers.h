// Reads one field of a request: type and range, or the line's failure with a message that says what
// would be accepted.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "model/token.h"
#include "runtime/job/request.h"

namespace headrace {

/// Thrown while a line is parsed, caught by RequestParser::parse().
struct LineFailure {
  LineError error;
};

[[noreturn]] void refuse(std::string code, std::string message);
/// invalid_request: "NAME: expected WHAT, got VALUE".
[[noreturn]] void refuse_value(std::string_view name, std::string_view expected,
                               const nlohmann::ordered_json& value);

struct IntegerRange {
  std::int64_t min = 0;
  std::int64_t max = INT32_MAX;
};
/// Integers, and numbers without a fraction ("5.0") as clients in dynamic languages send them.
std::int64_t read_integer(std::string_view name, const nlohmann::ordered_json& value,
                          IntegerRange range = {});

struct FloatRange {
  float min = 0.0F;
  float max = 0.0F;
  bool min_excluded = false;
};
float read_float(std::string_view name, const nlohmann::ordered_json& value, FloatRange range);

bool read_bool(std::string_view name, const nlohmann::ordered_json& value);
const std::string& read_string(std::string_view name, const nlohmann::ordered_json& value);

/// A list of token ids below vocab_size.
std::vector<TokenId> read_token_ids(std::string_view name, const nlohmann::ordered_json& value,
                                    int vocab_size);

}  // namespace headrace
