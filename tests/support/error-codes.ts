import type { ErrorCode } from '@sluice/runtime/errors'

/** The code of the 400 with this message, by how the message begins (docs/http-interface.md#errors). */
export function badRequestCode(message: string): ErrorCode {
  if (message.startsWith('Missing required field: ')) return 'missing_field'
  return message.startsWith('Invalid format: ') ? 'invalid_format' : 'invalid_field'
}
