/**
 * Tables have two, four or five columns, the last of which is text. Wide screens show the contents at the side; narrow
 * ones stack the cells of a row.
 */
export const style = `
:root { scroll-padding-top: 16px }
body { margin: 0 auto; max-width: 1280px; padding: 16px }
.skip { position: absolute; left: -100vw }
.skip:focus { left: 16px; top: 16px; padding: 8px; background: var(--sheet) }
nav { font-size: 13px }
nav ul { list-style: none; margin: 0 0 16px; padding: 0 }
nav p { margin: 0; font-weight: 600 }
nav p:first-child { margin-bottom: 16px; font-size: 16px; line-height: 24px }
nav li { padding: 2px 0; overflow-wrap: anywhere }
nav a { color: var(--ink); text-decoration: none }
nav a:hover { color: var(--accent); text-decoration: underline }
nav code { font-size: 12px; line-height: 16px }
h2 { margin: 48px 0 0; padding-bottom: 4px; border-bottom: 1px solid var(--line); font-size: 20px; line-height: 28px; font-weight: 600 }
h3 { margin: 32px 0 8px; font-size: 16px; line-height: 24px; font-weight: 600; overflow-wrap: anywhere }
h3 code { font-size: 14px; line-height: 24px; font-weight: 600 }
p { max-width: 720px }
pre { margin: 16px 0; padding: 12px 16px; background: var(--paper); border: 1px solid var(--line); border-radius: 6px; white-space: pre-wrap; overflow-wrap: anywhere }
table { table-layout: fixed; width: 100%; border-collapse: collapse; margin: 16px 0; font-size: 13px }
caption { text-align: left; font-weight: 600; padding: 4px 0 }
th, td { text-align: left; vertical-align: top; padding: 6px 12px 6px 0; border-top: 1px solid var(--line); overflow-wrap: anywhere }
thead th { border-top: 0; font-size: 12px; line-height: 16px; font-weight: 500; color: var(--muted) }
thead th:first-child { width: 28% }
thead th:first-child:nth-last-child(2), thead th:nth-child(2):not(:last-child) { width: 12% }
thead th:first-child:nth-last-child(5) { width: 20% }
thead th:nth-child(2):nth-last-child(4) { width: 8% }
thead th:nth-child(3):nth-last-child(3) { width: 10% }
thead th:nth-child(4):nth-last-child(2) { width: 26% }
caption code { font-weight: 600 }
th[scope=row] { font-weight: 400 }
@media (min-width: 1024px) {
  body { display: grid; grid-template-columns: 280px minmax(0, 1fr); gap: 24px }
  nav { position: sticky; top: 0; max-height: 100vh; box-sizing: border-box; overflow-y: auto; padding: 16px 0 }
}
@media (max-width: 640px) {
  body { padding: 8px }
  nav { padding: 8px }
  nav li { padding: 6px 0 }
  main { padding: 16px }
  table, thead, tbody, tr, th, td, caption { display: block }
  thead, td:empty { display: none }
  td { border: 0; padding-top: 0 }
}
`
