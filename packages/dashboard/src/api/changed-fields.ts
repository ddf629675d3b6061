/**
 * The fields of a PUT's body whose values differ from those of the record that was opened. The others are left out, so
 * that a form neither undoes what somebody else has changed meanwhile nor is refused for a field that nobody touched.
 */
export function changedFields<Body extends object>(
  body: Body,
  opened: { readonly [Name in keyof Body]?: unknown },
): Partial<Body> {
  const differs = ([name, value]: [string, unknown]) =>
    JSON.stringify(value) !== JSON.stringify(opened[name as keyof Body])
  return Object.fromEntries(Object.entries(body).filter(differs)) as Partial<Body>
}

/**
 * The members that differ of a nested object of which PUT takes a part, under the object's name; nothing where none
 * differs.
 */
export function changedMembers<Name extends string, Part extends object>(
  name: Name,
  part: Part,
  opened: { readonly [Member in keyof Part]?: unknown },
): Partial<Record<Name, Partial<Part>>> {
  const members = changedFields(part, opened)
  return Object.keys(members).length === 0 ? {} : ({ [name]: members } as Record<Name, Partial<Part>>)
}
