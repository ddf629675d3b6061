import type { ApiRequest } from '../api/request.ts'
import type { ShellDates } from '../state/shell-dates.ts'

/** A request whose dates the shell computes when the command is run. */
export interface CurlRequest extends ApiRequest {
  dates?: ShellDates
}

/** The request with dates that move with the time; undefined where there are none. */
export const relativeOf = (request: ApiRequest, dates: ShellDates | undefined): CurlRequest | undefined =>
  dates === undefined ? undefined : { ...request, dates }

const quoted = (text: string) => `'${text.replaceAll("'", String.raw`'\''`)}'`

/**
 * Puts variables of the shell in place of the numbers of `start_date` and `end_date`, which `pattern` finds in a quoted
 * text.
 */
const withVariables = (text: string, pattern: RegExp, dates: ShellDates | undefined) =>
  text.replaceAll(pattern, (found: string, before: string, name: 'start' | 'end') =>
    dates?.[name] === undefined ? found : `${before}'"$${name}"'`,
  )

/**
 * A request as a curl command for a shell. `origin` is the address of Sluice, `https://sluice.example`. The key is in
 * `$SLUICE_KEY`: a command never holds a secret.
 */
export function toCurl({ method, path, body, dates }: CurlRequest, origin: string): string {
  const lines = [
    `curl -sS ${withVariables(quoted(origin + path), /([?&](start|end)_date=)\d+/g, dates)}`,
    ...(method === 'GET' || (method === 'POST' && body !== undefined) ? [] : [`-X ${method}`]),
    '-H "Authorization: Bearer $SLUICE_KEY"',
    ...(body === undefined
      ? []
      : [
          `-H 'Content-Type: application/json'`,
          `-d ${withVariables(quoted(JSON.stringify(body)), /("(start|end)_date":)\d+/g, dates)}`,
        ]),
  ]
  const variables = Object.entries({ ...dates }).map(([name, command]) => `${name}=$(${command})\n`)
  return variables.join('') + lines.join(' \\\n  ')
}
