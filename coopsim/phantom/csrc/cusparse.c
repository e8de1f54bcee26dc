#include "answers.h"

int cusparseCreate(void **handle) { return new_handle(handle); }
