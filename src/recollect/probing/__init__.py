"""A mixer of your own: does it keep the rules, does it learn to recall, and how wide is its window beside known ones?"""
