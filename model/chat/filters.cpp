#include "model/chat/filters.h"

#include <algorithm>
#include <array>

#include "model/chat/filter_tables.h"
#include "model/chat/python_text.h"

namespace headrace::jinja {

Filter find_filter(std::string_view name) {
  for (const auto table :
       {text_filters(), value_filters(), sequence_filters(), selection_filters()}) {
    for (const NamedFilter& entry : table) {
      if (entry.name == name) return entry.filter;
    }
  }
  return nullptr;
}

std::string missing_filter(std::string_view name) {
  constexpr std::array<std::string_view, 5> kUnsupported{"pprint", "random", "striptags", "urlize",
                                                         "wordwrap"};
  if (std::find(kUnsupported.begin(), kUnsupported.end(), name) != kUnsupported.end()) {
    return "the filter " + quote_text(name) + " is not supported in chat templates";
  }
  return "No filter named " + quote_text(name) + ".";
}

}  // namespace headrace::jinja
