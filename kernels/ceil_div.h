#pragma once

#include <concepts>
#include <type_traits>

namespace headrace {

/// a / b, rounded up; a is not negative, b positive, and a + b has to fit the wider type.
template <std::integral A, std::integral B>
constexpr std::common_type_t<A, B> ceil_div(A a, B b) {
  return (a + b - 1) / b;
}

}  // namespace headrace
