// JSON of a request line, parsed with bounds: nesting, members of an object, values, valid UTF-8.
// Of duplicate keys the last one counts.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

namespace headrace {

inline constexpr int kMaxJsonDepth = 128;  // tools with nested schemas stay below 30
/// An object's members are searched one by one, so their number is bounded; logit_bias, the largest
/// object clients send, has at most 1,024.
inline constexpr int kMaxJsonMembers = 8192;
/// A value takes up to 25 times its text in memory ("[],"), so their number is bounded too: 2,048
/// prompts of 4,096 ids each.
inline constexpr std::int64_t kMaxJsonValues = std::int64_t{1} << 23;

/// Parses text into out. Returns what is wrong, as one clause of valid UTF-8; empty where nothing
/// is.
std::string parse_json_line(std::string_view text, nlohmann::ordered_json& out);

/// "a string", "an object", ...: what a value is, for messages.
std::string_view json_kind(const nlohmann::ordered_json& value);

}  // namespace headrace
