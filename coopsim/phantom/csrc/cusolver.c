/* cuSOLVER: a handle. */
#include "answers.h"

int cusolverDnCreate(void **handle) { coopsim_phantom_loaded(CUSOLVER); return new_handle(handle); }
