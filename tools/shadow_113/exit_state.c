/* What the first exit holds, told by real tor 0.3.5 each five seconds: belongs into src/core/mainloop/connection.c, above connection_handle_read_impl, and
 * is called in second_elapsed_callback of mainloop.c, after update_current_time, with its argument. `beside.py` reads the lines. */
void note_exit_state(time_t now);

void
note_exit_state(time_t now)
{
    int channels = 0, streams = 0, writing = 0, unread = 0;
    uint64_t outbufs = 0, requests = 0;

    const char *name = get_options()->Nickname;
    if (now % 5 || !name || strcmp(name, "exita"))
        return;
    SMARTLIST_FOREACH_BEGIN(get_connection_array(), connection_t *, conn) {
        const size_t waiting = conn->outbuf ? buf_datalen(conn->outbuf) : 0;
        if (conn->type == CONN_TYPE_OR) {
            channels++;
            outbufs += waiting;
        } else if (conn->type == CONN_TYPE_EXIT) {
            streams++;
            writing += waiting > 0;
            requests += waiting;
            unread += conn->read_blocked_on_bw;
        }
    } SMARTLIST_FOREACH_END(conn);
    log_notice(LD_GENERAL, "EXIT channels %d outbufs %" PRIu64 " streams %d writing %d requests %" PRIu64 " unread %d", channels, outbufs,
               streams, writing, requests, unread);
}
