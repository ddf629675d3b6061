import { useShortcut } from '../app/shortcuts.tsx'
import { messages } from '../messages/en.ts'

/** Makes `.` open the menu "More" that is nearest around the focus, else the first of the page. */
export function useMenuKey(): void {
  useShortcut('.', messages.shortcuts.menu, () => {
    const page = document.querySelector<HTMLElement>('main')
    for (let around: Element | null = document.activeElement; around !== null; around = around.parentElement) {
      if (around === page || page?.contains(around) !== true) break
      const menu = around.querySelector<HTMLElement>('.more')
      if (menu !== null) {
        menu.click()
        return
      }
    }
    page?.querySelector<HTMLElement>('.more')?.click()
  })
}
