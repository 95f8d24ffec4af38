// The parts of the filter table.
#pragma once

#include <span>
#include <string_view>

#include "model/chat/interpreter.h"

namespace headrace::jinja {

struct NamedFilter {
  std::string_view name;
  Filter filter;
};

std::span<const NamedFilter> text_filters();
std::span<const NamedFilter> value_filters();
std::span<const NamedFilter> sequence_filters();
std::span<const NamedFilter> selection_filters();

}  // namespace headrace::jinja
