/** Whether the value of an event's field counts as absent (docs/http-interface.md#event-fields). */
export function isAbsent(field: unknown): field is null | undefined | '' {
  return field === null || field === '' || field === undefined
}
