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
struct ExpParts16 {
  typename L::V power;
  typename L::V excess;
};

template <class L>
[[gnu::always_inline]] inline ExpParts16<L> exp_parts16(typename L::V x) {
  using C = ExpConstants;
  const auto shifted = L::fma(x, L::set1(C::kLog2E), L::set1(C::kRound));
  const auto n = L::sub(shifted, L::set1(C::kRound));
  auto r = L::fma(n, L::set1(-C::kLn2High), x);
  r = L::fma(n, L::set1(-C::kLn2Low), r);
  auto q = L::fma(r, L::set1(C::kQ4), L::set1(C::kQ3));
  q = L::fma(q, r, L::set1(C::kQ2));
  q = L::fma(q, r, L::set1(C::kQ1));
  q = L::fma(q, r, L::set1(C::kQ0));
  return {L::power_of_two(shifted), L::fma(L::mul(q, r), r, r)};
}

template <class L>
[[gnu::always_inline]] inline typename L::V exp16(typename L::V x) {
  using C = ExpConstants;
  x = L::min(L::set1(C::kHighest), x);
  x = L::max(L::set1(C::kLowest), x);
  const auto parts = exp_parts16<L>(x);
  return L::mul(L::add(parts.excess, L::set1(1.0F)), parts.power);
}

template <class L>
[[gnu::always_inline]] inline typename L::V tanh16(typename L::V x) {
  constexpr float kEnd = 10.0F;
  x = L::min(L::set1(kEnd), x);
  x = L::max(L::set1(-kEnd), x);
  const auto parts = exp_parts16<L>(L::add(x, x));
  const auto e = L::fma(parts.power, parts.excess, L::sub(parts.power, L::set1(1.0F)));
  return L::div(e, L::add(e, L::set1(2.0F)));
}

template <class L>
[[gnu::always_inline]] inline typename L::V soft_cap16(typename L::V x, typename L::V cap) {
  return L::mul(tanh16<L>(L::div(x, cap)), cap);
}

template <class L>
[[gnu::always_inline]] inline typename L::V silu16(typename L::V x) {
  const auto one = L::set1(1.0F);
  return L::div(x, L::add(one, exp16<L>(L::negate(x))));
}

template <class L>
[[gnu::always_inline]] inline typename L::V gelu_tanh16(typename L::V x) {
  using C = GeluTanhConstants;
  const auto twice_u = L::mul(x, L::fma(L::mul(x, x), L::set1(C::kCubic), L::set1(C::kLinear)));
  return L::div(x, L::add(L::set1(1.0F), exp16<L>(L::negate(twice_u))));
}

template <class L>
[[gnu::always_inline]] inline typename L::V gelu_erf16(typename L::V x) {
  using C = GeluErfConstants;
  const auto one = L::set1(1.0F);
  const auto a = L::min(L::set1(C::kFarthest), L::max(x, L::negate(x)));
  const auto t = L::div(one, L::fma(a, L::set1(C::kStretch), one));
  auto p = L::fma(t, L::set1(C::kP7), L::set1(C::kP6));
  p = L::fma(p, t, L::set1(C::kP5));
  p = L::fma(p, t, L::set1(C::kP4));
  p = L::fma(p, t, L::set1(C::kP3));
  p = L::fma(p, t, L::set1(C::kP2));
  p = L::fma(p, t, L::set1(C::kP1));
  p = L::fma(p, t, L::set1(C::kP0));
  const auto half_square = L::mul(L::mul(a, a), L::set1(-0.5F));
  const auto tail = L::mul(exp16<L>(half_square), L::mul(p, t));
  return L::sub(L::max(x, L::zero()), L::mul(a, tail));
}

}  // namespace
}  // namespace headrace
