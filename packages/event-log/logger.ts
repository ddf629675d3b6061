/** What the adapters need of a logger; pino's fits. One call per event worth an operator's attention, none per block. */
export interface EventLogLogger {
  debug(fields: object, message: string): void
  info(fields: object, message: string): void
  warn(fields: object, message: string): void
  error(fields: object, message: string): void
}
