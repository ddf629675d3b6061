import type { ComponentChildren } from 'preact'
import { useEffect, useId, useLayoutEffect, useRef, useState } from 'preact/hooks'
import { messages } from '../messages/en.ts'
import type { ControlAttributes } from './field.tsx'

/** An entry of a combobox. */
export interface ComboboxOption {
  value: string
  label: string
  /** Stands at the end, muted: a count. */
  detail?: string
}

export interface ComboboxProps {
  /** The accessible name where no `Field` labels it. */
  name?: string
  /** Attributes of a `Field`. */
  attributes?: Partial<ControlAttributes>
  value: string
  options: readonly ComboboxOption[]
  /** An option is chosen, or with `isFree` any text is entered. */
  onChange: (value: string) => void
  /** Takes texts that are not an option, at each key. */
  isFree?: boolean
  /** Takes texts that are not an option, by Enter or when the field is left. */
  takesTexts?: boolean
  placeholder?: string
  isQuiet?: boolean
}

/** Entries that are drawn at once. */
const shownMax = 100
const gap = 4

const simple = (text: string) => text.trim().toLowerCase().replaceAll('_', ' ')

/**
 * A field with a list that narrows while one types (the combobox of the ARIA practices). The text belongs to the input
 * element itself, so that typing is never behind rendering.
 */
export function Combobox({
  name,
  attributes,
  value,
  options,
  onChange,
  isFree = false,
  takesTexts = false,
  placeholder,
  isQuiet = false,
}: ComboboxProps) {
  const id = useId()
  const input = useRef<HTMLInputElement>(null)
  const [isOpen, setOpen] = useState(false)
  // Undefined until something is typed: then all options are listed.
  const [typed, setTyped] = useState<string>()
  const [active, setActive] = useState(-1)
  const label = options.find((each) => each.value === value)?.label ?? value
  const wanted = simple(typed ?? '')
  const found = options.filter((each) => simple(each.label).includes(wanted))
  // A long list is drawn around the chosen option.
  const chosenAt = typed === undefined ? found.findIndex((each) => each.value === value) : -1
  const from = Math.max(0, Math.min(chosenAt - shownMax / 2, found.length - shownMax))
  const shown = found.slice(from, from + shownMax)
  // Where any text is taken and none is known, there is nothing to match.
  const isListed = isOpen && !(isFree && options.length === 0)

  useEffect(() => {
    if (input.current !== null && typed === undefined) input.current.value = label
  }, [label, typed])

  const open = () => {
    setOpen(true)
    setActive(shown.findIndex((each) => each.value === value))
    // Typing then looks for another option, rather than going on with the name of this one.
    if (!isFree) input.current?.select()
  }
  const close = () => {
    setOpen(false)
    setActive(-1)
    setTyped(undefined)
    if (!isFree && input.current !== null) input.current.value = label
  }
  const choose = (option: ComboboxOption | undefined) => {
    close()
    if (option === undefined) return
    if (input.current !== null) input.current.value = option.label
    if (option.value !== value) onChange(option.value)
  }
  /** A text that was typed and names an option is meant by who goes on to the next field. */
  const leave = () => {
    const text = input.current?.value ?? ''
    if (isFree || text === label || simple(text) === '') close()
    else if (takesTexts) choose(optionOf(text, options) ?? { value: text.trim(), label: text.trim() })
    else choose(optionOf(text, options) ?? options.find((each) => isNamed(each, text)))
  }
  const onKeyDown = (event: KeyboardEvent) => {
    // The key belongs to an input method. Safari ends a composition before it sends the Enter, as the key code 229.
    // eslint-disable-next-line @typescript-eslint/no-deprecated -- Safari has no other sign of it
    if (event.isComposing || event.keyCode === 229) return
    const steps: Partial<Record<string, number>> = { ArrowDown: active + 1, ArrowUp: active - 1 }
    const to = steps[event.key]
    if (to !== undefined) {
      event.preventDefault()
      if (isOpen) setActive(shown.length === 0 ? -1 : (to + shown.length) % shown.length)
      else open()
    } else if (event.key === 'Enter' && isOpen && shown[active] !== undefined) {
      event.preventDefault()
      choose(shown[active])
    } else if (event.key === 'Escape' && isListed) {
      // Closes the list alone, not the dialog around it.
      event.preventDefault()
      event.stopPropagation()
      close()
    } else if (event.key === 'Enter') {
      if (takesTexts) leave()
      else close()
    }
  }
  return (
    <>
      <input
        {...attributes}
        ref={input}
        class={isQuiet ? 'input quiet-input' : 'input'}
        role="combobox"
        aria-label={name}
        aria-expanded={isListed}
        aria-controls={isListed ? `${id}-list` : undefined}
        aria-activedescendant={isOpen && active >= 0 ? `${id}-${active}` : undefined}
        aria-autocomplete="list"
        autocomplete="off"
        spellcheck={false}
        placeholder={placeholder}
        defaultValue={label}
        onClick={() => {
          if (!isOpen) open()
        }}
        onInput={(event) => {
          const text = event.currentTarget.value
          setOpen(true)
          setTyped(text)
          // Where any text is taken, Enter takes it as it is.
          setActive(isFree || takesTexts ? -1 : 0)
          if (isFree) onChange(valueOf(text, options))
        }}
        onKeyDown={onKeyDown}
        onBlur={leave}
      />
      {isListed ? (
        <List id={`${id}-list`} name={name ?? ''} anchor={input.current} active={active}>
          {shown.map((option, at) => (
            <li
              key={option.value}
              id={`${id}-${at}`}
              role="option"
              aria-selected={option.value === value}
              class={`menu-item${at === active ? ' active' : ''}`}
              onClick={() => choose(option)}
            >
              <bdi class="truncate">{option.label}</bdi>
              {option.detail === undefined ? null : <span class="muted">{option.detail}</span>}
            </li>
          ))}
          {shown.length === 0 ? <Remark text={messages.ui.noMatch} /> : null}
          {shown.length < found.length ? <Remark text={messages.ui.typeToFind} /> : null}
        </List>
      ) : null}
    </>
  )
}

/** A last line that can't be chosen. */
const Remark = ({ text }: { text: string }) => (
  <li role="option" aria-selected={false} aria-disabled="true" class="menu-item muted">
    {text}
  </li>
)

interface ListProps {
  id: string
  name: string
  anchor: HTMLElement | null
  active: number
  children: ComponentChildren
}

/** The list below its field, above everything else on the page. */
function List({ id, name, anchor, active, children }: ListProps) {
  const list = useRef<HTMLUListElement>(null)
  useLayoutEffect(() => {
    const element = list.current
    if (element === null || anchor === null) return undefined
    element.showPopover()
    const place = () => {
      const { left, right, bottom, top, width } = anchor.getBoundingClientRect()
      element.style.minInlineSize = `${width}px`
      const { offsetWidth, offsetHeight } = element
      const isAbove = bottom + gap + offsetHeight > innerHeight && top > offsetHeight + gap
      element.style.top = `${isAbove ? top - gap - offsetHeight : bottom + gap}px`
      const isRightToLeft = getComputedStyle(anchor).direction === 'rtl'
      element.style.left = `${Math.max(gap, Math.min(isRightToLeft ? right - offsetWidth : left, innerWidth - offsetWidth - gap))}px`
    }
    place()
    addEventListener('scroll', place, true)
    addEventListener('resize', place)
    return () => {
      removeEventListener('scroll', place, true)
      removeEventListener('resize', place)
    }
  }, [anchor])
  useEffect(() => {
    list.current?.children[active]?.scrollIntoView({ block: 'nearest' })
  }, [active])
  return (
    <ul
      ref={list}
      id={id}
      role="listbox"
      aria-label={name === '' ? messages.ui.options : name}
      popover="manual"
      // Browsers let Tab reach what scrolls: the focus would go to the list, and be lost with it.
      tabIndex={-1}
      class="popover combobox-list"
      // The field keeps the focus.
      onPointerDown={(event) => event.preventDefault()}
      onMouseDown={(event) => event.preventDefault()}
    >
      {children}
    </ul>
  )
}

const optionOf = (text: string, options: readonly ComboboxOption[]) =>
  options.find(({ value }) => value === text) ?? options.find(({ label }) => label === text)

/** Whether a text is the value or the label of an option, however it is written. */
const isNamed = ({ value, label }: ComboboxOption, text: string) => [value, label].map(simple).includes(simple(text))

/** The meaning of a typed text: the option that is listed under this name, or the text itself. */
export function valueOf(text: string, options: readonly ComboboxOption[]): string {
  return optionOf(text, options)?.value ?? text
}
