// Vector twins of kernels/numeric.h: the same operations in the same order, 16 lanes at a time.
//
// Everything in the simd_*.h headers sits in an unnamed namespace: each file of an instruction set
// gets its own copies, built with its own flags, and the linker can never hand one to code that
// runs on every CPU. For the same reason they call no inline function of the standard library.
#pragma once

#include "kernels/numeric.h"

namespace headrace {
namespace {

// L is the lanes of an instruction set (lanes_*.h): sixteen float32 and what can be done with them.
template <class L>
[[gnu::always_inline]] inline typename L::V exp16(typename L::V x) {
  using C = ExpConstants;
  x = L::min(L::set1(C::kHighest), x);
  x = L::max(L::set1(C::kLowest), x);
  const auto shifted = L::fma(x, L::set1(C::kLog2E), L::set1(C::kRound));
  const auto n = L::sub(shifted, L::set1(C::kRound));
  auto r = L::fma(n, L::set1(-C::kLn2High), x);
  r = L::fma(n, L::set1(-C::kLn2Low), r);
  auto q = L::fma(r, L::set1(C::kQ4), L::set1(C::kQ3));
  q = L::fma(q, r, L::set1(C::kQ2));
  q = L::fma(q, r, L::set1(C::kQ1));
  q = L::fma(q, r, L::set1(C::kQ0));
  const auto p = L::add(L::fma(L::mul(q, r), r, r), L::set1(1.0F));
  return L::mul(p, L::power_of_two(shifted));
}

template <class L>
[[gnu::always_inline]] inline typename L::V silu16(typename L::V x) {
  const auto one = L::set1(1.0F);
  return L::div(x, L::add(one, exp16<L>(L::negate(x))));
}

}  // namespace
}  // namespace headrace
