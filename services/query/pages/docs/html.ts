/** Escapes a text for HTML. */
export function escape(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;')
}

/** HTML of a piece of code. */
export function code(text: string): string {
  return `<code>${escape(text)}</code>`
}

/** Renders a sentence in which backticks mark code. */
export function inline(text: string): string {
  return escape(text).replace(/`([^`]*)`/g, '<code>$1</code>')
}

/** Renders paragraphs, which empty lines separate. */
export function prose(text: string): string {
  return text
    .split('\n\n')
    .map((paragraph) => `<p>${inline(paragraph)}</p>`)
    .join('\n')
}

/** Renders a table with a header for each column and, in its first column, for each row; cells are HTML. */
export function table(caption: string, columns: readonly string[], rows: readonly (readonly string[])[]): string {
  if (rows.length === 0) return ''
  const head = columns.map((column) => `<th scope="col">${column}</th>`).join('')
  const body = rows.map(
    ([first = '', ...rest]) =>
      `<tr><th scope="row">${first}</th>${rest.map((cell) => `<td>${cell}</td>`).join('')}</tr>`,
  )
  return `<table>
<caption>${caption}</caption>
<thead><tr>${head}</tr></thead>
<tbody>
${body.join('\n')}
</tbody>
</table>`
}
