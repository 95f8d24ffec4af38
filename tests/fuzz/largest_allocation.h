// The largest single allocation by operator new, counted in a program that links this.
#pragma once

#include <cstddef>

namespace headrace {

std::size_t largest_allocation();
void reset_largest_allocation();

}  // namespace headrace
