/* The functions of lanyard.h that have MPI handles or statuses, for the module lanyard_f08. Each
 * calls the function of its name and returns its code. */

#include "lanyard/lanyard.h"

#include <stddef.h>

#include "api/fortran/handles.h"

typedef int each_call(Lanyard_Queue queue, int count, MPI_Request requests[]);

static int enqueue(each_call* call, Lanyard_Queue queue, int count, MPI_Fint* requests) {
  lanyard_f_requests taken;
  int code = lanyard_f_take(&taken, count, requests, 0, NULL);
  if (code != MPI_SUCCESS)
    return code;
  code = call(queue, count, taken.requests);
  lanyard_f_give_back(&taken);
  return code;
}

static int start(Lanyard_Queue queue, int count, MPI_Request requests[]) {
  (void)count;
  return Lanyard_Enqueue_start(queue, requests);
}

static int wait(Lanyard_Queue queue, int count, MPI_Request requests[]) {
  (void)count;
  return Lanyard_Enqueue_wait(queue, requests);
}

int lanyard_f_enqueue_start(Lanyard_Queue queue, MPI_Fint* request) { return enqueue(start, queue, 1, request); }

int lanyard_f_enqueue_startall(Lanyard_Queue queue, int count, MPI_Fint* requests) {
  return enqueue(Lanyard_Enqueue_startall, queue, count, requests);
}

int lanyard_f_enqueue_wait(Lanyard_Queue queue, MPI_Fint* request) { return enqueue(wait, queue, 1, request); }

int lanyard_f_enqueue_waitall(Lanyard_Queue queue, int count, MPI_Fint* requests) {
  return enqueue(Lanyard_Enqueue_waitall, queue, count, requests);
}

int lanyard_f_match(MPI_Fint* request, MPI_Fint* status) {
  lanyard_f_requests taken;
  int code = lanyard_f_take(&taken, 1, request, 1, status);
  if (code != MPI_SUCCESS)
    return code;
  code = Lanyard_Match(taken.requests, taken.statuses);
  lanyard_f_give_back(&taken);
  return code;
}

int lanyard_f_matchall(int count, MPI_Fint* requests, MPI_Fint* statuses) {
  lanyard_f_requests taken;
  int code = lanyard_f_take(&taken, count, requests, count, statuses);
  if (code != MPI_SUCCESS)
    return code;
  code = Lanyard_Matchall(count, taken.requests, taken.statuses);
  lanyard_f_give_back(&taken);
  return code;
}

int lanyard_f_imatchall(int count, MPI_Fint* requests, MPI_Fint* match_request) {
  lanyard_f_requests taken;
  int code = lanyard_f_take(&taken, count, requests, 0, NULL);
  if (code != MPI_SUCCESS)
    return code;
  MPI_Request match = MPI_REQUEST_NULL;
  code = Lanyard_Imatchall(count, taken.requests, &match);
  lanyard_f_give_back(&taken);
  if (code == MPI_SUCCESS)
    *match_request = PMPI_Request_c2f(match);
  return code;
}

int lanyard_f_imatch(MPI_Fint* request, MPI_Fint* match_request) {
  return lanyard_f_imatchall(1, request, match_request);
}

int lanyard_f_is_matched(const MPI_Fint* request, int* flag) {
  return Lanyard_Is_matched(PMPI_Request_f2c(*request), flag);
}

int lanyard_f_queue_get_info(Lanyard_Queue queue, MPI_Fint* info) {
  MPI_Info made = MPI_INFO_NULL;
  const int code = Lanyard_Queue_get_info(queue, &made);
  if (code == MPI_SUCCESS)
    *info = PMPI_Info_c2f(made);
  return code;
}

int lanyard_f_request_set_info(const MPI_Fint* request, const MPI_Fint* info) {
  return Lanyard_Request_set_info(PMPI_Request_f2c(*request), PMPI_Info_f2c(*info));
}

int lanyard_f_request_get_info(const MPI_Fint* request, MPI_Fint* info) {
  MPI_Info made = MPI_INFO_NULL;
  const int code = Lanyard_Request_get_info(PMPI_Request_f2c(*request), &made);
  if (code == MPI_SUCCESS)
    *info = PMPI_Info_c2f(made);
  return code;
}
