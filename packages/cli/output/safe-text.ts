/** Control characters of terminals. Stored text may hold any of them, and must not move the cursor or set titles. */
// eslint-disable-next-line no-control-regex -- These characters are what the expression is for.
const controls = /[\u0000-\u001f\u007f-\u009f\u2028\u2029\u202a-\u202e\u2066-\u2069]/g

/** A text as one line that a terminal shows as it is: control characters become `\u001b` and the like. */
export function safeText(text: string): string {
  return text.replaceAll(controls, (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`)
}

/** JSON that a terminal shows as it is; it is still the same JSON. `indent`: spaces of each level, 0 for one line. */
export function safeJson(value: unknown, indent = 0): string {
  // JSON.stringify escapes the other control characters; line breaks are its own.
  return JSON.stringify(value, undefined, indent)
    .split('\n')
    .map((line) => safeText(line))
    .join('\n')
}
