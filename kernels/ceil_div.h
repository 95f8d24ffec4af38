#pragma once

#include <cstdint>

namespace headrace {

/// a / b, rounded up; a is not negative, b positive.
constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

}  // namespace headrace
