// Threads that outlive Python.
//
// A thread that wants the interpreter after its end, as autograd's do at the tail of a backward pass, is ended by Python
// before 3.14 with pthread_exit. That unwinds frames of C++ which must not be left so, and the process aborts
// ("terminate called without an active exception"). Newer Pythons let such a thread wait for the end of the process;
// so does this. It is a library of its own, because it must be loaded before Python's.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <unistd.h>

void pthread_exit(void *value) {
  int (*ending)(void) = (int (*)(void))dlsym(RTLD_DEFAULT, "Py_IsFinalizing");
  if (!ending) ending = (int (*)(void))dlsym(RTLD_DEFAULT, "_Py_IsFinalizing");
  while (ending && ending()) pause();
  void (*next)(void *) = (void (*)(void *))dlsym(RTLD_NEXT, "pthread_exit");
  next(value);
  __builtin_unreachable();
}
