// Functions of a library that is loaded when the first of them is called.
#pragma once

#include <dlfcn.h>

#include <algorithm>
#include <cstddef>
#include <stdexcept>
#include <string>

namespace headrace {

/// A function's name as a parameter of a template.
template <std::size_t kBytes>
struct FunctionName {
  constexpr FunctionName(
      const char (&name)[kBytes]) {  // NOLINT(google-explicit-constructor): a literal
    std::copy(name, name + kBytes, text);
  }
  char text[kBytes];
};

/// Calls the library's function of that name. Library has handle(), which loads it or throws, and
/// kName for messages. The arguments are the parameters of the caller, which the library's own
/// header declares, so their types are the function's. Throws std::runtime_error where the library
/// has no such function.
template <class Library, class Result, FunctionName kName, class... Arguments>
Result call_loaded(Arguments... arguments) {
  static auto* const function = [] {
    void* const address = dlsym(Library::handle(), kName.text);
    if (address == nullptr)
      throw std::runtime_error(std::string(Library::kName) + ": " + dlerror());
    return reinterpret_cast<Result (*)(Arguments...)>(address);
  }();
  return function(arguments...);
}

}  // namespace headrace
