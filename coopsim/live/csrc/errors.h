// Kernels written in Python, of which PyTorch has some, say by Python's own error that there was no room.
#pragma once

#include <c10/util/Exception.h>

#include <cstring>

extern "C" {
int PyGILState_Ensure(void);
void PyGILState_Release(int);
void* PyErr_Occurred(void);
void PyErr_Clear(void);
int PyErr_GivenExceptionMatches(void*, void*);
}

namespace coopsim {

// Python's class of that error.
inline void*& python_s_out_of_memory() {
  static void* kind = nullptr;
  return kind;
}

// An error was caught. Python must know of none of its own any more.
inline void forget_python_s() {
  const int state = PyGILState_Ensure();
  PyErr_Clear();
  PyGILState_Release(state);
}

// Did an op find no room? Then the error is over.
inline bool ran_out(const std::exception& why) {
  if (dynamic_cast<const c10::OutOfMemoryError*>(&why)) return true;
  const int state = PyGILState_Ensure();
  void* set = PyErr_Occurred();
  const bool found = set ? PyErr_GivenExceptionMatches(set, python_s_out_of_memory()) != 0
                         : std::strstr(why.what(), "out of memory") != nullptr;
  if (found) PyErr_Clear();
  PyGILState_Release(state);
  return found;
}

}  // namespace coopsim
