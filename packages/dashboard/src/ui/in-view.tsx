import type { ComponentChildren, RefObject } from 'preact'
import { useEffect, useRef, useState } from 'preact/hooks'

/**
 * Returns the reference for an element. Calls `onChange` when the element comes on the screen or leaves it, and when it
 * is removed. The function of the first render is the one that is called.
 */
export function useOnScreen(onChange: (isOnScreen: boolean) => void): RefObject<HTMLSpanElement> {
  const element = useRef<HTMLSpanElement>(null)
  useEffect(() => {
    if (element.current === null) return undefined
    const observer = new IntersectionObserver((entries) => onChange(entries.at(-1)?.isIntersecting === true))
    observer.observe(element.current)
    return () => {
      observer.disconnect()
      onChange(false)
    }
  }, [])
  return element
}

/** Renders its children once it has been on the screen: what many rows would fetch is fetched only for those seen. */
export function InView({
  children,
  placeholder,
  class: name,
}: {
  children: () => ComponentChildren
  placeholder?: ComponentChildren
  class?: string
}) {
  const [isSeen, setSeen] = useState(false)
  const element = useOnScreen((isOnScreen) => {
    if (isOnScreen) setSeen(true)
  })
  return (
    <span ref={element} class={name}>
      {isSeen ? children() : placeholder}
    </span>
  )
}
